# SPDX-License-Identifier: Apache-2.0
"""Runs one tracker for a C++ program: `python3 -m accelerate_cpp.tracker <name>`.

The name is `aim`, `clearml`, `comet_ml`, `swanlab`, or `module:Class` with a subclass of GeneralTracker. The program
starts this process with a socket as descriptor 3 and its stderr as descriptor 4. stdout and stderr are the socket, too,
until the first line is sent; the program can therefore report why Python did not start.

The first line is `{"protocol": 1}`. Then the program sends requests, one JSON object per line, and this process sends
one answer to each of them: `{}`, or `{"error": …, "hint": …, "kind": …}`. The requests, by the value of `call`:

    start       project, logging_dir, kwargs
    config      config
    log         step, values, kwargs
    log_images  step, images: lists of PNG files in base64, by key
    log_table   step, key, columns, rows
    finish

If the program ends without `finish`, this process handles the requests that it has received, finishes the tracker, and
kills itself and its own child processes after at most 30 seconds.
"""

import base64
import json
import os
import select
import signal
import stat
import sys
import threading
from typing import Optional

PROTOCOL = 1
SOCKET, STDERR = 3, 4
ORPHAN_SECONDS = 30.0
_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD")


def without_secrets(text: str) -> str:
    """Replaces the values of environment variables such as COMET_API_KEY."""
    for name, value in os.environ.items():
        if len(value) >= 8 and any(word in name.upper() for word in _SECRET_WORDS):
            text = text.replace(value, f"<{name}>")
    return text.encode(errors="replace").decode()


def described(error: BaseException) -> dict:
    from . import errors

    if isinstance(error, errors.Error):
        return {"error": without_secrets(error.message), "hint": error.hint, "kind": type(error).__name__}
    return {"error": without_secrets(f"{type(error).__name__}: {error}"), "hint": "", "kind": ""}


class Session:
    """The tracker of this process; each method answers the request of the same name."""

    def __init__(self, name: str):
        self.name = name
        self.adapter = None

    def start(self, project: str, logging_dir: str, kwargs: Optional[dict]) -> None:
        from . import errors
        from ._services import class_named
        from .tracking import Adapter

        tracker_class = class_named(self.name)
        if tracker_class is None:
            raise errors.ArgumentError(f"unknown tracker `{self.name}`")
        adapter = Adapter(None, tracker_class, self.name)
        if adapter.requires_logging_directory and not logging_dir:
            raise errors.ArgumentError(
                f"tracker `{self.name}` needs a folder for its files",
                "set `project_dir`, or `logging_dir` in `project_config`",
            )
        adapter.start(project, logging_dir, kwargs)
        self.adapter = adapter

    def config(self, config) -> None:
        self.adapter.store_init_configuration(config)

    def log(self, step: int, values: dict, kwargs: Optional[dict]) -> None:
        self.adapter.log(values, step, kwargs)

    def log_images(self, step: int, images: dict) -> None:
        decoded = {key: [base64.b64decode(png) for png in files] for key, files in images.items()}
        self.adapter.log_images(decoded, step)

    def log_table(self, step: int, key: str, columns: list, rows: list) -> None:
        self.adapter.log_table(key, columns, rows, step)

    def finish(self) -> None:
        adapter, self.adapter = self.adapter, None
        if adapter is not None:
            adapter.finish()

    def answer(self, request: dict) -> dict:
        arguments = {key: value for key, value in request.items() if key != "call"}
        try:
            getattr(self, request["call"])(**arguments)
            return {}
        except Exception as error:  # The code of a service may raise anything.
            return described(error)


def watch_program(done: threading.Event) -> None:
    """Waits until the program has ended; then limits how long this process may continue."""
    poll = select.poll()
    poll.register(SOCKET, 0)  # Reports only POLLHUP and POLLERR.
    poll.poll()
    # The system's timer also works if a tracker never releases the GIL.
    signal.setitimer(signal.ITIMER_REAL, ORPHAN_SECONDS + 2)
    if not done.wait(ORPHAN_SECONDS):
        kill_group()


def kill_group() -> None:
    """Ends this process and the processes that the tracker started."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def send(value: dict) -> None:
    data = json.dumps(value).encode() + b"\n"
    try:
        while data:
            data = data[os.write(SOCKET, data) :]
    except OSError:
        pass  # The program has ended; requests may still be waiting.


def serve(name: str) -> None:
    os.set_inheritable(SOCKET, False)
    os.dup2(STDERR, 1)
    os.dup2(STDERR, 2)
    os.close(STDERR)
    done = threading.Event()
    threading.Thread(target=watch_program, args=(done,), daemon=True).start()
    session = Session(name)
    with os.fdopen(SOCKET, "rb") as requests:
        send({"protocol": PROTOCOL})
        for line in requests:
            if not line.endswith(b"\n"):
                break  # The program was killed while it sent this request.
            request = json.loads(line)
            send(session.answer(request))
            if request["call"] == "finish":
                done.set()
                return
        try:
            session.finish()
        finally:
            kill_group()


def main() -> int:
    try:
        started_by_program = stat.S_ISSOCK(os.fstat(SOCKET).st_mode)
    except OSError:
        started_by_program = False
    if len(sys.argv) != 2 or not started_by_program:
        print("usage: python3 -m accelerate_cpp.tracker <name>, started by a program with `log_with`", file=sys.stderr)
        return 2
    serve(sys.argv[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
