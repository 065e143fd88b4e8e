# SPDX-License-Identifier: Apache-2.0
"""Runs commands and jobs on a test cluster, and checks what they print."""

import os
import re
import signal
import subprocess
import time
from datetime import datetime, timedelta
from pathlib import Path

CASES = []


def case(seconds, nodes=2):
    """Registers a function as a test case that may take `seconds`."""
    def register(function):
        function.seconds = seconds
        function.nodes = nodes
        CASES.append(function)
        return function
    return register


class Failed(Exception):
    """An expectation of a case was not met."""


class Result:
    """The exit code and the output (stdout and stderr) of a command."""

    def __init__(self, command, code, output):
        self.command = command
        self.code = code
        self.output = output

    def check(self, code, *texts, absent=()):
        """Expects an exit code and texts, which are regular expressions."""
        problems = []
        if self.code != code:
            problems.append(f"exit code {self.code}, not {code}")
        for text in texts:
            if not re.search(text, self.output):
                problems.append(f"no `{text}` in the output")
        for text in absent:
            if re.search(text, self.output):
                problems.append(f"`{text}` in the output")
        if problems:
            raise Failed("\n".join([*problems, f"$ {self.command}", self.output]))
        return self

    def count(self, text, expected):
        """Expects that a text occurs a number of times."""
        found = len(re.findall(text, self.output))
        if found != expected:
            raise Failed(f"{found} times `{text}`, not {expected}\n$ {self.command}\n{self.output}")
        return self


class Running:
    """A command in the background, in its own process group."""

    def __init__(self, shell, command):
        self.shell = shell
        self.command = command
        self.path = shell.folder / f"output-{time.monotonic_ns()}"
        with open(self.path, "wb") as output:
            self.process = subprocess.Popen(
                ["bash", "-c", command], cwd=shell.folder, env=shell.environment,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True)
        shell.running.append(self)

    def output(self):
        return self.path.read_text(errors="replace")

    def wait_for(self, text, count=1):
        """Waits until the output has a text, a regular expression."""
        self.shell.wait_until(
            lambda: len(re.findall(text, self.output())) >= count,
            lambda: f"no `{text}` from\n$ {self.command}\n{self.output()}")
        return self

    def wait(self):
        try:
            self.process.wait(max(0.1, self.shell.deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.stop()
            raise Failed(f"did not end in time:\n$ {self.command}\n{self.output()}") from None
        return Result(self.command, self.process.returncode, self.output())

    def stop(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Shell:
    """Runs the commands of one case on the first node of a cluster."""

    def __init__(self, cluster, build, name, seconds):
        self.cluster = cluster
        self.build = Path(build)
        self.folder = cluster.shared / name
        self.folder.mkdir()
        self.deadline = time.monotonic() + seconds
        self.running = []
        programs = self.build / "bin"
        self.environment = cluster.environment(
            PATH=f"{programs}:{os.environ['PATH']}",
            PROGRAM=str(programs / "tests/launched_program"),
            TRAINS=str(programs / "tests/checkpoint_program"),
            EXAMPLES=str(programs / "examples"),
            CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1")

    def wait_until(self, condition, problem):
        while not condition():
            if time.monotonic() > self.deadline:
                raise Failed(problem())
            time.sleep(0.05)

    def start(self, command):
        return Running(self, command)

    def run(self, command):
        return self.start(command).wait()

    # ---- jobs ------------------------------------------------------------

    def submit(self, script, *options):
        """Submits a batch script; its output goes to `<job>.out`."""
        path = self.folder / "job.sh"
        path.write_text(script if script.startswith("#!") else "#!/bin/bash\n" + script)
        result = self.run(" ".join(
            ["sbatch", "--parsable", "--output", "%A%.0a.out", *options, str(path)])
            .replace("%A%.0a", "%j"))
        result.check(0)
        return int(result.output.split(";")[0])

    def job(self, number):
        """Returns the fields of a job, as `scontrol` shows them."""
        text = self.run(f"scontrol --oneliner show job {number}").output
        return dict(re.findall(r"(\w+)=(\S*)", text))

    def job_output(self, number):
        path = self.folder / f"{number}.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def wait_for_output(self, number, text):
        self.wait_until(lambda: re.search(text, self.job_output(number)),
                        lambda: f"no `{text}` from job {number}:\n{self.job_output(number)}")

    def wait_for_job(self, number, states=("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")):
        """Waits until a job has ended; returns its exit code and output."""
        self.wait_until(lambda: self.job(number).get("JobState") in states,
                        lambda: f"job {number} is {self.job(number)}\n{self.job_output(number)}")
        code, signal_number = map(int, self.job(number)["ExitCode"].split(":"))
        return Result(f"job {number}", code or 128 + signal_number if signal_number else code,
                      self.job_output(number))

    def start_requeued_job(self, number):
        """Starts a requeued job, which Slurm would delay by two minutes.

        A node rejects the new credential of a job if the old credential was revoked in the same
        second, so this function waits for the next second.
        """
        def is_running():
            job = self.job(number)
            if job.get("Restarts") != "1":
                return False
            requeued = datetime.fromisoformat(job["SubmitTime"])
            if job["JobState"] == "PENDING" and datetime.now() > requeued + timedelta(seconds=3):
                self.run(f"scontrol update JobId={number} StartTime=now")
            return job["JobState"] == "RUNNING"
        self.wait_until(is_running, lambda: f"not requeued: {self.job(number)}\n"
                                            f"{self.job_output(number)}")

    def stop(self):
        for running in self.running:
            running.stop()
        subprocess.run(["scancel", "--user", "root", "--signal", "KILL", "--full"],
                       env=self.environment, check=False, timeout=30,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        subprocess.run(["scancel", "--user", "root"], env=self.environment, check=False,
                       timeout=30, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
