#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes runs with every tracker, reads them with the real programs, and prints
a table of what the programs showed.

    tests/trackers/run.py <build folder> [--venv <folder>] [<tracker> …]

The build folder must contain `bin/accelerate_write_run`. The programs are
installed into a virtual environment, by default `<build folder>/trackers-venv`,
unless it exists. Exits with 1 if a program did not show what was logged.

NOTE [Readers]
`read_<tracker>.py <folder> <project>` reads a run and prints a `RunContent`.
Each run has its own folder and its own project, so a reader finds one run. The
folder is also the current folder and TRACKIO_DIR of the program that writes it;
MLFLOW_TRACKING_URI is the address of a server that this script starts.
"""

import argparse
import contextlib
import dataclasses
import json
import math
import os
import pathlib
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv

HERE = pathlib.Path(__file__).resolve().parent
# A run that fills the disk logs this many steps.
LONG_RUN = 2000
# Files cannot grow beyond this size when the disk is full.
FULL_DISK_BYTES = 50000
PICTURES = [["eval/one", 8, 4, 0x10], ["eval/two", 8, 4, 0x60], ["eval/two", 8, 4, 0x70]]


@dataclasses.dataclass
class Tracker:
    name: str
    images: bool = True
    every_text: bool = True  # Otherwise, only the last text of a key is kept.
    writes_files: bool = True
    uses_server: bool = False


TRACKERS = [
    Tracker("tensorboard"),
    Tracker("jsonl"),
    Tracker("csv", images=False),
    Tracker("mlflow", every_text=False, writes_files=False, uses_server=True),
    Tracker("wandb"),
    Tracker("trackio"),
    Tracker("dvclive"),
]


class Failure(Exception):
    """A program did not show what was logged."""


def check(condition, text):
    if not condition:
        raise Failure(text)


@contextlib.contextmanager
def unused_address():
    """An address at which nothing listens."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{reserved.getsockname()[1]}"


@contextlib.contextmanager
def mlflow_server(python, folder):
    with unused_address() as address:
        port = address.rsplit(":", 1)[1]
    command = [python, "-m", "mlflow", "server", "--workers", "1"]
    command += ["--port", port, "--backend-store-uri", f"sqlite:///{folder}/mlflow.db"]
    command += ["--artifacts-destination", str(folder / "artifacts")]
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            cwd=folder,
            env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
            start_new_session=True,
        )
    try:
        wait_until_ready(server, address)
        yield address
    finally:
        stop_group(server)


def stop_group(leader):
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            leader.wait(30)


def wait_until_ready(server, address):
    deadline = time.monotonic() + 300
    while True:
        try:
            # The first request for data takes much longer than `/health`.
            url = f"{address}/api/2.0/mlflow/experiments/get?experiment_id=0"
            with urllib.request.urlopen(url, timeout=120):
                return
        except OSError:
            check(server.poll() is None, "the MLflow server has ended")
            check(time.monotonic() < deadline, "the MLflow server does not answer")
            time.sleep(0.5)


class Checker:
    """The checks of one tracker."""

    def __init__(self, tracker, program, python, folder, server):
        self.tracker = tracker
        self.program = program
        self.python = python
        self.folder = folder / tracker.name
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "PYTHONWARNINGS": "ignore",
            "DVC_NO_ANALYTICS": "1",
            "MLFLOW_TRACKING_URI": server,
            "TRACKIO_DIR": "",
        }

    def write(self, case, *arguments, limit_files=False, **variables):
        """Writes a run. Returns the exit status and the warnings."""
        folder = self.folder / case
        folder.mkdir(parents=True, exist_ok=True)
        # Python ignores SIGXFSZ, as a program on a full disk gets no signal.
        limits = (FULL_DISK_BYTES, FULL_DISK_BYTES)
        result = subprocess.run(
            [self.program, self.tracker.name, folder, *arguments, "project", self.project(case)],
            cwd=folder,
            env={**self.environment, "TRACKIO_DIR": str(folder), **variables},
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            restore_signals=not limit_files,
            preexec_fn=(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits))
            if limit_files
            else None,
        )
        lines = result.stderr.splitlines()
        return result.returncode, [line for line in lines if line.startswith("warning: ")]

    def kill_arguments(self):
        # Files are complete after 50 ms; a server may need longer for requests.
        return "kill", "10000" if self.tracker.uses_server else "1000"

    def project(self, case):
        return f"team/{self.tracker.name}-{case}"

    def read(self, case):
        folder = self.folder / case
        result = subprocess.run(
            [self.python, HERE / f"read_{self.tracker.name}.py", folder, self.project(case)],
            env={**self.environment, "TRACKIO_DIR": str(folder)},
            capture_output=True,
            text=True,
            timeout=300,
        )
        if result.returncode != 0:
            last = result.stderr.strip().splitlines()[-1:]
            raise Failure(f"the reader failed: {' '.join(last)}")
        return json.loads(result.stdout.splitlines()[-1])

    def check_steps(self, content, steps):
        """Checks the losses of a run that must have exactly these steps."""
        losses = content["scalars"].get("train/loss", [])
        found = [step for step, _ in losses]
        check(found == list(steps), f"the steps are {found}")
        for step, loss in losses:
            check(math.isclose(loss, 20 / (step + 20), rel_tol=1e-6), f"loss {loss} at {step}")

    # The columns of the table. Each returns the text of a cell.

    def scalar(self):
        content = self.read("complete")
        self.check_steps(content, range(6))
        scalars = content["scalars"]
        check(scalars["epoch"] == [[step, 0] for step in range(6)], scalars["epoch"])
        ((_, nan),) = scalars["not finite/nan"]
        check(math.isnan(nan), f"NaN is {nan}")
        ((_, infinity),) = scalars["not finite/inf"]
        check(infinity >= sys.float_info.max, f"infinity is {infinity}")
        return "6 steps, NaN, ∞"

    def text(self):
        notes = self.read("complete")["texts"]["note"]
        expected = [[step, f'step "{step}" ✓'] for step in range(6)]
        if self.tracker.every_text:
            check(notes == expected, notes)
            return "6 steps"
        check([text for _, text in notes] == [expected[-1][1]], notes)
        return "the last one"

    def image(self):
        found = self.read("complete")["pictures"]
        if not self.tracker.images:
            refusal = f"the tracker `{self.tracker.name}` does not support images"
            check(found == [] and any(refusal in line for line in self.warnings), found)
            return "refused"
        # Some programs show one image per key.
        separate = [["eval/two/" + str(i), *rest] for i, (_, *rest) in enumerate(PICTURES[1:])]
        check(sorted(found) in (PICTURES, [PICTURES[0], *separate]), found)
        return "3"

    def config(self):
        config = self.read("complete")["config"]
        check(float(config["lr"]) == 0.1 and config["model/name"] == "bert", config)
        return "yes"

    def resume(self):
        status, _ = self.write("resume", "0", "6", "save", "2", *self.kill_arguments())
        check(status == -9, f"exit status {status}")
        status, warnings = self.write("resume", "3", "8")
        check(status == 0, f"exit status {status}: {warnings}")
        self.check_steps(self.read("resume"), range(8))
        return "8 steps"

    def kill(self):
        status, _ = self.write("kill", "0", "6", *self.kill_arguments())
        check(status == -9, f"exit status {status}")
        self.check_steps(self.read("kill"), range(6))
        return "6 steps"

    def unreachable(self):
        if not self.tracker.uses_server:
            return "no server"
        with unused_address() as address:
            begin = time.monotonic()
            status, warnings = self.write("unreachable", "0", "6", MLFLOW_TRACKING_URI=address)
            seconds = time.monotonic() - begin
        check(status == 0, f"exit status {status}")
        check(any("lost up to" in line for line in warnings), warnings)
        check(seconds < 30, f"the program took {seconds} s")
        return f"{len(warnings)} warnings"

    def full_disk(self):
        if not self.tracker.writes_files:
            return "no files"
        status, warnings = self.write("full", "0", str(LONG_RUN), "pause", "1", limit_files=True)
        check(status == 0, f"exit status {status}")
        check(any("lost up to" in line for line in warnings), warnings)
        content = self.read("full")
        steps = [step for step, _ in content["scalars"]["train/loss"]]
        check(0 < len(steps) < LONG_RUN, f"{len(steps)} steps")
        check(steps == sorted(set(steps)), f"the steps are {steps}")
        self.check_steps(content, steps)
        return f"{len(steps)} of {LONG_RUN} steps"

    def cells(self):
        status, self.warnings = self.write("complete", "0", "6")
        if status != 0:
            print(self.warnings, file=sys.stderr)
        for column in COLUMNS.values():
            try:
                yield column(self)
            except (Failure, KeyError, ValueError, subprocess.TimeoutExpired) as failure:
                print(f"{self.tracker.name}: {column.__name__}: {failure!r}", file=sys.stderr)
                yield "FAILED"


COLUMNS = {
    "scalar": Checker.scalar,
    "text": Checker.text,
    "image": Checker.image,
    "config": Checker.config,
    "resume": Checker.resume,
    "kill -9": Checker.kill,
    "unreachable server": Checker.unreachable,
    "full disk": Checker.full_disk,
}


def python_with_readers(folder):
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        install = [python, "-m", "pip", "install", "--quiet", "-r", HERE / "requirements.txt"]
        subprocess.run(install, check=True)
    return str(python)


def print_row(cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def check_runs(arguments, python, folder, server):
    """Prints the table. Returns whether all programs showed what was logged."""
    program = arguments.build.resolve() / "bin" / "accelerate_write_run"
    rows = []
    print_row(["tracker", *COLUMNS])
    print_row(["---"] * (1 + len(COLUMNS)))
    for tracker in TRACKERS:
        if tracker.name in arguments.trackers:
            checker = Checker(tracker, program, python, folder, server)
            rows.append([tracker.name, *checker.cells()])
            print_row(rows[-1])
    return all("FAILED" not in row for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--venv", type=pathlib.Path)
    parser.add_argument("trackers", nargs="*")
    arguments = parser.parse_intermixed_args()
    arguments.trackers = arguments.trackers or [tracker.name for tracker in TRACKERS]
    python = python_with_readers(arguments.venv or arguments.build.resolve() / "trackers-venv")
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = ""
        if any(t.uses_server and t.name in arguments.trackers for t in TRACKERS):
            server = stack.enter_context(mlflow_server(python, folder))
        return 0 if check_runs(arguments, python, folder, server) else 1


if __name__ == "__main__":
    sys.exit(main())
