# SPDX-License-Identifier: Apache-2.0
"""A small Slurm cluster on this machine, from Debian's slurm-wlm.

`enter_namespaces` moves this process into its own network, mount and PID namespaces, so that
nothing listens outside these namespaces, and everything ends when this process ends. `Cluster`
then starts munged, slurmctld and one slurmd per node. Every node has its own hostname and /tmp.
Every node except the first also has its own network namespace, unless the nodes share the network
of the first node.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

INSIDE = "SLURM_TEST_INSIDE"
START_SECONDS = 30
STOP_SECONDS = 20


def enter_namespaces():
    """Starts this script again in its own namespaces. Returns only in the new process."""
    if os.environ.get(INSIDE):
        return
    # Process 1 inherits all orphans. The shell waits for them, as on a machine; this script would
    # leave zombies, which tests that count processes would find.
    command = ["unshare", "--mount", "--net", "--uts", "--pid", "--fork", "--kill-child",
               "--mount-proc", "--propagation", "private",
               "bash", "-c", '"$@"; exit $?', "init", sys.executable, *sys.argv]
    os.execvpe("unshare", command, {**os.environ, INSIDE: "1"})


def run(*command, **options):
    subprocess.run(command, check=True, timeout=30, **options)


def wait_until(what, condition, seconds=START_SECONDS):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {seconds} s")
        time.sleep(0.05)


class Cluster:
    """`nodes` machines named n1, n2, …; commands run on n1."""

    def __init__(self, nodes, own_networks=True):
        self.nodes = [f"n{i + 1}" for i in range(nodes)]
        self.own_networks = own_networks
        # Not in /tmp, because every node has its own /tmp.
        self.folder = Path(tempfile.mkdtemp(prefix="accelerate-slurm-", dir="/var/tmp"))
        self.shared = self.folder / "shared"  # The users' shared file system.
        self.conf = self.folder / "slurm.conf"
        self.processes = {}

    def __enter__(self):
        try:
            self.shared.mkdir()
            self._make_network()
            self._write_files()
            self._start_munged()
            self._start("slurmctld", ["slurmctld", "-D", "-f", self.conf])
            for number, node in enumerate(self.nodes):
                self._start_node(number, node)
            wait_until("all nodes are idle", self.is_idle)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    # ---- commands --------------------------------------------------------

    def environment(self, **extra):
        return {**os.environ, "SLURM_CONF": str(self.conf), "HOME": str(self.shared),
                "TMPDIR": "/tmp", **extra}

    def output(self, *command):
        return subprocess.run(
            command, env=self.environment(), timeout=30, check=False, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout

    def is_idle(self):
        states = self.output("sinfo", "-h", "-N", "-o", "%T").split()
        return states == ["idle"] * len(self.nodes)

    def log(self, name):
        return self.folder / f"{name}.log"

    # ---- start and stop --------------------------------------------------

    def address(self, number):
        return f"10.77.0.{number + 1 if self.own_networks else 1}"

    def _make_network(self):
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "cluster", "type", "bridge")
        run("ip", "addr", "add", "10.77.0.1/24", "dev", "cluster")
        run("ip", "link", "set", "cluster", "up")
        run("hostname", self.nodes[0])

    def _write_files(self):
        addresses = ["127.0.0.1 localhost"]
        lines = []
        for number, node in enumerate(self.nodes):
            addresses.append(f"{self.address(number)} {node}")
            lines.append(
                f"NodeName={node} NodeAddr={self.address(number)} Port={7000 + number} "
                "CPUs=4 RealMemory=1000 Gres=gpu:2 State=UNKNOWN")
        names = ",".join(self.nodes)
        self.conf.write_text(f"""\
ClusterName=test
SlurmctldHost={self.nodes[0]}({self.address(0)})
SlurmctldPort=6900
SlurmUser=root
MailProg=/bin/true
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge.socket
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool.%n
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd.%n.pid
SlurmctldLogFile={self.log("slurmctld")}
SlurmdLogFile={self.folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
GresTypes=gpu
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
KillWait=8
JobRequeue=1
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,bf_interval=1
{chr(10).join(lines)}
PartitionName=test Nodes={names} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
""")
        # Simulated GPUs, which are sufficient for `--gpus-per-node`.
        (self.folder / "gres.conf").write_text(f"NodeName={names} Name=gpu File=/dev/tty[1-2]\n")
        (self.folder / "state").mkdir()
        names_file = self.folder / "etc-names"
        names_file.write_text("\n".join(addresses) + "\n")
        run("mount", "--bind", names_file, "/etc/hosts")

    def _start(self, name, command):
        log = open(self.log(name + ".out"), "wb")
        self.processes[name] = subprocess.Popen(
            [str(part) for part in command], env=self.environment(), stdin=subprocess.PIPE,
            stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        log.close()
        return self.processes[name]

    def _start_munged(self):
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(64))
        key.chmod(0o400)
        self.folder.chmod(0o755)
        socket = self.folder / "munge.socket"
        self._start("munged", [
            "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={socket}",
            f"--pid-file={self.folder}/munged.pid", f"--seed-file={self.folder}/munged.seed",
            f"--log-file={self.log('munged')}", "--num-threads=2"])
        wait_until("munged listens", socket.exists)

    def _start_node(self, number, node):
        (self.folder / f"spool.{node}").mkdir()
        own_network = self.own_networks and number > 0
        script = f"hostname {node} && mount -t tmpfs tmpfs /tmp && "
        if own_network:
            script += (
                "read go && ip link set lo up && "
                f"ip addr add {self.address(number)}/24 dev {node} && ip link set {node} up && ")
        script += f"exec slurmd -D -N {node} -f {self.conf}"
        spaces = ["--uts", "--mount"] + (["--net"] if own_network else [])
        process = self._start(f"slurmd.{node}", ["unshare", *spaces, "bash", "-c", script])
        if own_network:
            self._plug_in(process, node)

    def _plug_in(self, process, node):
        ours = os.readlink("/proc/self/ns/net")
        wait_until("a network namespace exists", lambda: os.readlink(
            f"/proc/{process.pid}/ns/net") != ours)
        run(*f"ip link add {node}-main type veth peer name {node}".split())
        run("ip", "link", "set", f"{node}-main", "master", "cluster", "up")
        run("ip", "link", "set", node, "netns", str(process.pid))
        process.stdin.write(b"go\n")
        process.stdin.flush()

    def stop(self):
        """Stops each daemon by its pid. The end of the namespace stops all other processes."""
        for process in reversed(self.processes.values()):
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        for process in self.processes.values():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()
        for command in (["ip", "link", "del", "cluster"], ["umount", "/etc/hosts"]):
            subprocess.run(command, check=False, timeout=30, stderr=subprocess.DEVNULL)
        if os.environ.get("KEEP_SLURM_FOLDER"):
            print("kept", self.folder)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def wait_until_idle(self):
        wait_until("all nodes are idle", self.is_idle)
