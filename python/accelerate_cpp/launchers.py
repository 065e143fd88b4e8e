# SPDX-License-Identifier: Apache-2.0
"""Functions on several processes, from a notebook or an interactive Python."""

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

# Runs the command so that it dies with the interpreter that started it: a kernel may be killed at any time.
_SHIM = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


_COLUMNS = 100
# Clears a line of a terminal; cells know only the carriage return.
_CLEAR = "\r\x1b[K"


class WorkerError(errors.Error):
    """A worker of `notebook_launcher` failed; `rank` and `traceback` say where."""

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


def _choose(asked: Optional[int], gpus: int) -> tuple:
    """How many processes, and why so many and there."""
    if asked is None:
        return _default_processes(gpus)
    if 0 < gpus < asked:
        return asked, f"on the CPU: {asked} were asked for, and this machine has {_number_of_gpus(gpus)}"
    return asked, "as asked for"


def _default_processes(gpus: int) -> tuple:
    if gpus > 0:
        return gpus, f"one for each of {gpus} GPUs" if gpus > 1 else "one GPU"
    cores = len(os.sched_getaffinity(0))
    count = max(1, min(8, cores // 4))
    return count, f"CPU, {cores} cores"


def _dump(function: Callable, args: tuple) -> bytes:
    try:
        import cloudpickle
    except ImportError:
        raise errors.UnsupportedError(
            "notebook_launcher needs the package `cloudpickle` to hand the function to other processes",
            "run `pip install cloudpickle`",
        ) from None
    try:
        return cloudpickle.dumps((function, tuple(args)))
    except Exception as error:
        raise errors.ArgumentError(
            f"the function or its arguments cannot be handed to other processes: {error}",
            "make what does not pickle (files, locks, connections) inside the function",
        ) from error


def _check(function, args, mixed_precision, num_processes, gpus) -> None:
    if not callable(function):
        raise errors.ArgumentError(f"notebook_launcher got a `{type(function).__name__}`", "pass a function")
    if not isinstance(args, (tuple, list)):
        raise errors.ArgumentError(
            f"`args` is a `{type(args).__name__}`", "pass a tuple: `args=(value,)` for a single argument"
        )
    if mixed_precision not in ("no", "fp16", "bf16"):
        raise errors.ArgumentError(f"mixed_precision is `{mixed_precision}`", "use `no`, `fp16` or `bf16`")
    if mixed_precision == "fp16" and gpus == 0:
        raise errors.UnsupportedError("`fp16` needs a GPU, and there is none here", "use `bf16`, or `no`")
    if num_processes is not None and num_processes < 1:
        raise errors.ArgumentError(f"num_processes is {num_processes}", "pass 1 or more, or leave it out")
    if mixed_precision == "fp16" and num_processes is not None and gpus < num_processes:
        raise errors.UnsupportedError(
            f"`fp16` needs a GPU for each of {num_processes} processes, and this machine has {_number_of_gpus(gpus)}",
            "pass at most one process per GPU, or use `bf16`",
        )


def _check_nodes(num_nodes: int, node_rank: int, rdzv_backend: str, rdzv_conf: Optional[dict]) -> None:
    if num_nodes < 1:
        raise errors.ArgumentError(f"num_nodes is {num_nodes}", "pass 1 or more, or leave it out")
    if not 0 <= node_rank < num_nodes:
        raise errors.ArgumentError(
            f"node_rank is {node_rank}, and num_nodes is {num_nodes}", "pass the number of this machine, from 0"
        )
    if num_nodes == 1 and (rdzv_backend != "static" or rdzv_conf):
        raise errors.ArgumentError(
            f"rdzv_backend is `{rdzv_backend}` and rdzv_conf is `{rdzv_conf}`, but a single machine meets nobody",
            "leave them out, or pass `num_nodes` too",
        )


def _announce(count: int, why: str) -> None:
    processes = "1 process" if count == 1 else f"{count} processes"
    print(f"Launching training on {processes} ({why})", flush=True)
    if PartialState.is_initialized():
        print("The Accelerator of this notebook stays out of it: the processes make their own", flush=True)


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
    """Runs `function(*args)` in `num_processes` fresh processes of this machine; returns what the first one returns.

    Nothing of this process is inherited, so it works after CUDA was used here, a second time, and after an
    exception. Their output appears here as it comes. The first exception of a worker is raised here as
    `WorkerError`, with the worker's traceback, once all have ended. Interrupting ends them all. More processes
    than this machine has GPUs train on the CPU, and it says so.
    """
    gpus = torch.cuda.device_count()
    _check(function, args, mixed_precision, num_processes, gpus)
    _check_nodes(num_nodes, node_rank, rdzv_backend, rdzv_conf)
    for name, value, inert in (
        ("rdzv_endpoint", rdzv_endpoint, ""),
        ("rdzv_id", rdzv_id, "none"),
        ("log_line_prefix_template", log_line_prefix_template, None),
    ):
        if value != inert:
            raise errors.UnsupportedError(f"`{name}` has no counterpart in accelerate_cpp", "leave it out")
    num_processes, why = _choose(num_processes, gpus)
    words = ["--mixed_precision", mixed_precision]
    words += ["--max_restarts", str(max_restarts), "--monitor_interval", str(monitor_interval)]
    if gpus < num_processes:
        words.append("--cpu")
    if num_nodes > 1:
        why += f", on each of {num_nodes} machines"
        words += ["--num_machines", str(num_nodes), "--machine_rank", str(node_rank)]
        words += ["--main_process_ip", master_addr, "--rdzv_backend", rdzv_backend]
        if rdzv_conf:
            words += ["--rdzv_conf", ",".join(f"{key}={value}" for key, value in rdzv_conf.items())]
    if use_port is not None:
        words += ["--main_process_port", str(use_port)]
    return _launch(function, args, num_processes, num_nodes, why, words, is_first_node=node_rank == 0)


def debug_launcher(function: Callable, args: tuple = (), num_processes: int = 2) -> Any:
    """`notebook_launcher` on the CPU, for tests."""
    _check(function, args, "no", num_processes, gpus=0)
    return _launch(function, args, num_processes, 1, "on the CPU", ["--cpu"], hide_gpus=True)


def _launch(function, args, num_processes, num_nodes, why, words, *, is_first_node=True, hide_gpus=False) -> Any:
    data = _dump(function, args)
    _announce(num_processes, why)
    total = num_processes * num_nodes
    words = ["--num_processes", str(total), *words]
    folder = tempfile.mkdtemp(prefix="accelerate_notebook_")
    try:
        with open(os.path.join(folder, "function"), "wb") as file:
            file.write(data)
        code, report = _run(words, folder, hide_gpus)
        _raise_failure(code, report, folder, total)
        path = os.path.join(folder, "result")
        if not is_first_node or not os.path.exists(path):
            return None
        with open(path, "rb") as file:
            return pickle.load(file)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(words: list, folder: str, hide_gpus: bool) -> tuple:
    """Runs the launcher; returns its exit code and what it wrote to stderr."""
    variables = launch.environment()
    variables["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    variables[progress.FOLDER_VARIABLE] = folder
    variables["NO_COLOR"] = "1"
    if hide_gpus:
        variables["CUDA_VISIBLE_DEVICES"] = ""
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        variables.pop(name, None)
    command = [launch.command_path(), "launch", "--quiet", *words, "--stop_timeout", "3", "--grace_period", "3"]
    command += ["--no_python", sys.executable, "-u", "-m", "accelerate_cpp._worker"]
    with _terminal() as (screen, theirs):
        process = subprocess.Popen(
            [sys.executable, "-c", _SHIM, str(os.getpid()), *command],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        with process:
            try:
                report = _forward(process.stdout.fileno(), screen, progress.Receiver(folder))
                return process.wait(), report
            except BaseException:
                _stop(process)
                raise


@contextlib.contextmanager
def _terminal():
    """A terminal that nobody sees, both ends: the launcher draws progress bars on a terminal only."""
    ours, theirs = os.openpty()
    try:
        tty.setraw(theirs)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, _COLUMNS, 0, 0))
        yield ours, theirs
    finally:
        os.close(ours)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError as error:
        if error.errno == errno.EIO:  # a terminal whose other end is closed
            return b""
        raise


def _forward(out: int, err: int, receiver) -> str:
    """Writes what comes to this process's streams, which in a notebook are the cell's."""
    said = []
    with selectors.DefaultSelector() as selector:
        for descriptor, name in ((out, "stdout"), (err, "stderr")):
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            selector.register(descriptor, selectors.EVENT_READ, (name, decoder))
        while selector.get_map():
            receiver.look()
            for key, _ in selector.select(timeout=0.5):
                name, decoder = key.data
                data = _read(key.fd)
                text = decoder.decode(data, final=not data)
                if name == "stderr":
                    said.append(text)
                    text = text.replace(_CLEAR, "\r" + " " * _COLUMNS + "\r")
                stream = getattr(sys, name)
                stream.write(text)
                stream.flush()
                if not data:
                    selector.unregister(key.fileobj)
    receiver.look()
    return "".join(said).replace(_CLEAR, "\n")


def _stop(process) -> None:
    """Ends the launcher and with it all workers."""
    for _ in range(2):  # once is a request, twice is at once
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
                is_about_others, text, trace = pickle.load(file)
            failures.append((is_about_others, os.stat(path).st_mtime_ns, int(name[len("error_") :]), text, trace))
    if failures:
        # A process that only noticed another's end may have been the first to say so.
        _, _, rank, text, trace = min(failures)
        raise WorkerError(f"process {rank} of {num_processes} raised {text}", rank=rank, traceback=trace)
    lines = [line for line in report.splitlines() if line.startswith("error:")]
    what = lines[-1][len("error: ") :] if lines else f"the processes ended with code {code}"
    raise WorkerError(what, "see what the processes printed above")
