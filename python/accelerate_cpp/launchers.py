# SPDX-License-Identifier: Apache-2.0
"""Runs functions in several processes, from a notebook or an interactive Python session."""

import codecs
import contextlib
import errno
import fcntl
import os
import pickle
import selectors
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import tty
from typing import Any, Callable, Optional

import torch

from . import errors, launch, progress
from .state import PartialState

# Runs the command so that it dies with the interpreter that started it, since a notebook kernel may be killed.
_SHIM = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


_COLUMNS = 100
# Clears a line in a terminal; notebook cells only support the carriage return.
_CLEAR = "\r\x1b[K"


class WorkerError(errors.Error):
    """A worker process of `notebook_launcher` failed; see `rank` and `traceback`."""

    def __init__(self, message: str = "", hint: str = "", rank: Optional[int] = None, traceback: str = ""):
        super().__init__(message, hint)
        self.rank = rank
        self.traceback = traceback

    def __reduce__(self):
        return type(self), (self.message, self.hint, self.rank, self.traceback)

    def __str__(self) -> str:
        return f"{super().__str__()}\n\n{self.traceback}" if self.traceback else super().__str__()


def _number_of_gpus(gpus: int) -> str:
    return "1 GPU" if gpus == 1 else f"{gpus} GPUs"


def _choose(requested: Optional[int], gpus: int) -> tuple:
    """The number of processes, and the reason for the number and the device."""
    if requested is None:
        return _default_processes(gpus)
    if 0 < gpus < requested:
        return requested, f"on the CPU: {requested} processes were requested, but this machine has {_number_of_gpus(gpus)}"
    return requested, "as requested"


def _default_processes(gpus: int) -> tuple:
    if gpus > 0:
        return gpus, f"one on each of {gpus} GPUs" if gpus > 1 else "one GPU"
    cores = len(os.sched_getaffinity(0))
    count = max(1, min(8, cores // 4))
    return count, "on the CPU, 1 core" if cores == 1 else f"on the CPU, {cores} cores"


def _dump(function: Callable, args: tuple) -> bytes:
    try:
        import cloudpickle
    except ImportError:
        raise errors.UnsupportedError(
            "notebook_launcher needs the package `cloudpickle` to send the function to other processes",
            "run `pip install cloudpickle`",
        ) from None
    try:
        return cloudpickle.dumps((function, tuple(args)))
    except Exception as error:
        raise errors.ArgumentError(
            f"the function and its arguments cannot be sent to other processes: {error}",
            "create objects that cannot be pickled (files, locks, connections) inside the function",
        ) from error


def _check(function, args, mixed_precision, num_processes, gpus) -> None:
    if not callable(function):
        raise errors.ArgumentError(
            f"notebook_launcher needs a function, but got a value of type `{type(function).__name__}`",
            "pass a function",
        )
    if not isinstance(args, (tuple, list)):
        raise errors.ArgumentError(
            f"`args` has type `{type(args).__name__}`, not `tuple`", "pass `args=(value,)` for a single argument"
        )
    if mixed_precision not in ("no", "fp16", "bf16"):
        raise errors.ArgumentError(
            f"mixed_precision is `{mixed_precision}`, but must be one of no, fp16, bf16", "use `no`, `fp16` or `bf16`"
        )
    if mixed_precision == "fp16" and gpus == 0:
        raise errors.UnsupportedError("`fp16` needs a GPU, but this machine has none", "use `bf16` or `no`")
    if num_processes is not None and num_processes < 1:
        raise errors.ArgumentError(
            f"num_processes is {num_processes}, but must be at least 1", "pass 1 or more, or leave it out"
        )
    if mixed_precision == "fp16" and num_processes is not None and gpus < num_processes:
        raise errors.UnsupportedError(
            f"`fp16` needs one GPU per process, but there are {num_processes} processes and "
            f"{_number_of_gpus(gpus)}",
            "start at most one process per GPU, or use `bf16`",
        )


def _check_nodes(num_nodes: int, node_rank: int, rdzv_backend: str, rdzv_conf: Optional[dict]) -> None:
    if num_nodes < 1:
        raise errors.ArgumentError(
            f"num_nodes is {num_nodes}, but must be at least 1", "pass 1 or more, or leave it out"
        )
    if not 0 <= node_rank < num_nodes:
        raise errors.ArgumentError(
            f"node_rank is {node_rank}, but num_nodes is {num_nodes}",
            "pass the number of machines as `num_nodes`, and a different `node_rank`, counted from 0, on each machine",
        )
    if num_nodes == 1 and (rdzv_backend != "static" or rdzv_conf):
        raise errors.ArgumentError(
            f"rdzv_backend is `{rdzv_backend}` and rdzv_conf is `{rdzv_conf}`, "
            "but a single machine needs no rendezvous",
            "leave them out, or pass `num_nodes` too",
        )


def _announce(count: int, reason: str) -> None:
    processes = "1 process" if count == 1 else f"{count} processes"
    print(f"Launching training on {processes} ({reason})", flush=True)
    if PartialState.is_initialized():
        print("The Accelerator in this notebook is not used: each process creates its own", flush=True)


def notebook_launcher(
    function: Callable,
    args: tuple = (),
    num_processes: Optional[int] = None,
    mixed_precision: str = "no",
    use_port: Optional[str] = None,
    master_addr: str = "127.0.0.1",
    node_rank: int = 0,
    num_nodes: int = 1,
    rdzv_backend: str = "static",
    rdzv_endpoint: str = "",
    rdzv_conf: Optional[dict] = None,
    rdzv_id: str = "none",
    max_restarts: int = 0,
    monitor_interval: float = 0.1,
    log_line_prefix_template: Optional[str] = None,
) -> Any:
    """Runs `function(*args)` in `num_processes` new processes; returns the result from process 0.

    The workers are new processes, so you can launch as often as you like, even after this process has used CUDA or
    after a launch has failed. The workers' output appears here as they write it. If workers raise
    exceptions, the first one is raised here as `WorkerError`, with the worker's traceback, after all workers have
    exited. An interrupt stops all workers. If there are more processes than GPUs, all processes train on the CPU, and
    a note is printed.
    """
    gpus = torch.cuda.device_count()
    _check(function, args, mixed_precision, num_processes, gpus)
    _check_nodes(num_nodes, node_rank, rdzv_backend, rdzv_conf)
    for name, value, default in (
        ("rdzv_endpoint", rdzv_endpoint, ""),
        ("rdzv_id", rdzv_id, "none"),
        ("log_line_prefix_template", log_line_prefix_template, None),
    ):
        if value != default:
            raise errors.UnsupportedError(f"accelerate_cpp does not support `{name}`", "leave it out")
    num_processes, reason = _choose(num_processes, gpus)
    arguments = ["--mixed_precision", mixed_precision]
    arguments += ["--max_restarts", str(max_restarts), "--monitor_interval", str(monitor_interval)]
    if gpus < num_processes:
        arguments.append("--cpu")
    if num_nodes > 1:
        reason += f", on each of {num_nodes} machines"
        arguments += ["--num_machines", str(num_nodes), "--machine_rank", str(node_rank)]
        arguments += ["--main_process_ip", master_addr, "--rdzv_backend", rdzv_backend]
        if rdzv_conf:
            arguments += ["--rdzv_conf", ",".join(f"{key}={value}" for key, value in rdzv_conf.items())]
    if use_port is not None:
        arguments += ["--main_process_port", str(use_port)]
    return _launch(function, args, num_processes, num_nodes, reason, arguments, is_first_node=node_rank == 0)


def debug_launcher(function: Callable, args: tuple = (), num_processes: int = 2) -> Any:
    """Like `notebook_launcher`, but always on the CPU, for tests."""
    _check(function, args, "no", num_processes, gpus=0)
    return _launch(function, args, num_processes, 1, "on the CPU", ["--cpu"], hide_gpus=True)


def _launch(function, args, num_processes, num_nodes, reason, arguments, *, is_first_node=True, hide_gpus=False) -> Any:
    data = _dump(function, args)
    _announce(num_processes, reason)
    total = num_processes * num_nodes
    arguments = ["--num_processes", str(total), *arguments]
    folder = tempfile.mkdtemp(prefix="accelerate_notebook_")
    try:
        with open(os.path.join(folder, "function"), "wb") as file:
            file.write(data)
        code, report = _run(arguments, folder, hide_gpus)
        _raise_failure(code, report, folder, total)
        path = os.path.join(folder, "result")
        if not is_first_node or not os.path.exists(path):
            return None
        with open(path, "rb") as file:
            return pickle.load(file)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(arguments: list, folder: str, hide_gpus: bool) -> tuple:
    """Runs the launcher; returns its exit code and its stderr output."""
    variables = launch.environment()
    variables["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    variables[progress.FOLDER_VARIABLE] = folder
    variables["NO_COLOR"] = "1"
    if hide_gpus:
        variables["CUDA_VISIBLE_DEVICES"] = ""
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        variables.pop(name, None)
    command = [launch.command_path(), "launch", "--quiet", *arguments, "--stop_timeout", "3", "--grace_period", "3"]
    command += ["--no_python", sys.executable, "-u", "-m", "accelerate_cpp._worker"]
    with _pseudo_terminal() as (terminal, launcher_side):
        process = subprocess.Popen(
            [sys.executable, "-c", _SHIM, str(os.getpid()), *command],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=launcher_side,
            start_new_session=True,
        )
        os.close(launcher_side)
        with process:
            try:
                report = _forward(process.stdout.fileno(), terminal, progress.ProgressReader(folder))
                return process.wait(), report
            except BaseException:
                _stop(process)
                raise


@contextlib.contextmanager
def _pseudo_terminal():
    """Both ends of a pseudo-terminal, since the launcher draws progress bars only on a terminal."""
    terminal, launcher_side = os.openpty()
    try:
        tty.setraw(launcher_side)
        fcntl.ioctl(launcher_side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, _COLUMNS, 0, 0))
        yield terminal, launcher_side
    finally:
        os.close(terminal)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError as error:
        if error.errno == errno.EIO:  # the other end of the pseudo-terminal is closed
            return b""
        raise


def _forward(out: int, err: int, progress_reader) -> str:
    """Copies the output to the streams of this process (in a notebook: of the cell); returns the stderr output."""
    stderr_parts = []
    with selectors.DefaultSelector() as selector:
        for descriptor, name in ((out, "stdout"), (err, "stderr")):
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            selector.register(descriptor, selectors.EVENT_READ, (name, decoder))
        while selector.get_map():
            progress_reader.poll()
            for key, _ in selector.select(timeout=0.5):
                name, decoder = key.data
                data = _read(key.fd)
                text = decoder.decode(data, final=not data)
                if name == "stderr":
                    stderr_parts.append(text)
                    text = text.replace(_CLEAR, "\r" + " " * _COLUMNS + "\r")
                stream = getattr(sys, name)
                stream.write(text)
                stream.flush()
                if not data:
                    selector.unregister(key.fileobj)
    progress_reader.poll()
    return "".join(stderr_parts).replace(_CLEAR, "\n")


def _stop(process) -> None:
    """Stops the launcher and with it all workers."""
    for _ in range(2):  # the first SIGINT asks the workers to stop, the second kills them
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.5)
            return
    process.kill()
    process.wait()


def _raise_failure(code: int, report: str, folder: str, num_processes: int) -> None:
    if code == 0:
        return
    failures = []
    for name in os.listdir(folder):
        if name.startswith("error_") and not name.endswith(".part"):
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                caused_by_other_rank, text, trace = pickle.load(file)
            failures.append((caused_by_other_rank, os.stat(path).st_mtime_ns, int(name[len("error_") :]), text, trace))
    if failures:
        # The first report may come from a process that only noticed that another one failed.
        _, _, rank, text, trace = min(failures)
        raise WorkerError(f"process {rank} of {num_processes} raised {text}", rank=rank, traceback=trace)
    lines = [line for line in report.splitlines() if line.startswith("error:")]
    message = lines[-1][len("error: ") :] if lines else f"the processes failed with exit code {code}"
    raise WorkerError(message, "see the output of the processes above")
