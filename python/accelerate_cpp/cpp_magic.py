# SPDX-License-Identifier: Apache-2.0
"""`%%cpp`: C++ cells in a Python notebook.

    %load_ext accelerate_cpp

    %%cpp
    void training_function(int epochs) { … }

    notebook_launcher(training_function, (3,), num_processes=2)

A cell is compiled only when its content changes. The functions it defines become Python functions in the notebook; a
call passes `torch.Tensor`s without copying. `%%cpp --run --num_processes 2` compiles a program with a `main` and
launches it.
"""

import argparse
import ctypes
import functools
import importlib.util
import os
import shlex
import signal
import subprocess
import sys
from importlib.machinery import ExtensionFileLoader
from pathlib import Path

from . import cpp_cells


class CppCompileError(Exception):
    """A cell does not compile. `messages` holds the compiler's messages, with the cell's line numbers."""

    def __init__(self, messages: str):
        super().__init__(messages)
        self.messages = messages

    def _render_traceback_(self) -> list:
        """What a notebook shows: the messages without this module's stack frames."""
        return [self.messages.rstrip("\n")]


class CppFunction:
    """A function from a C++ cell. It is pickled as the path of its library and its name."""

    def __init__(self, library: str, name: str):
        self.library = library
        self.__name__ = self.__qualname__ = name
        self._function = getattr(_load_library(library), name)
        self.__doc__ = self._function.__doc__

    def __call__(self, *args, **kwargs):
        try:
            return self._function(*args, **kwargs)
        finally:
            ctypes.CDLL(None).fflush(None)  # shows the output of the function before Python prints more

    def __reduce__(self):
        return CppFunction, (self.library, self.__name__)

    def __repr__(self) -> str:
        return f"<C++ function {self.__doc__.splitlines()[0] if self.__doc__ else self.__name__}>"


@functools.lru_cache(maxsize=None)
def _load_library(path: str):
    import torch  # noqa: F401  the library needs the libraries that torch loads

    loader = ExtensionFileLoader(Path(path).stem, path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader, origin=path))
    loader.exec_module(module)
    return module


def _print_status(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _compile(code: str, flags: list, program: bool) -> cpp_cells.Cell:
    try:
        return cpp_cells.compile_cell(code, flags, program, _print_status)
    except cpp_cells.CompilerError as error:
        raise CppCompileError(str(error)) from None


def define(code: str, flags: list = ()) -> dict:
    """Compiles a cell; returns its functions by name."""
    cell = _compile(code, list(flags), program=False)
    return {name: CppFunction(str(cell.path), name) for name in cell.functions}


def run(code: str, launch_options: list, flags: list = ()) -> int:
    """Compiles a cell with a `main` and runs it with `accelerate launch`. Returns the exit code."""
    cell = _compile(code, list(flags), program=True)
    command = [str(cpp_cells.Installation.find().command), "launch", *launch_options, str(cell.path)]
    # In its own session, so that an interrupt in the notebook reaches the program only once, through this process.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    with process:
        try:
            for line in iter(process.stdout.readline, b""):
                print(line.decode(errors="replace"), end="", flush=True)
        except BaseException:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return process.returncode


def _parse(line: str) -> tuple:
    parser = argparse.ArgumentParser(prog="%%cpp", add_help=False, exit_on_error=False)
    parser.add_argument("--run", action="store_true", help="compile a program and launch it")
    parser.add_argument("--flags", default="", help="additional compiler flags")
    options, rest = parser.parse_known_args(shlex.split(line))
    if rest and not options.run:
        raise CppCompileError(
            f"%%cpp has no option `{rest[0]}`\nhint: add `--run` to pass options to `accelerate launch`"
        )
    return options, rest


def cpp(line: str, cell: str, namespace: dict) -> None:
    """Implements the magic for a notebook whose variables are in `namespace`."""
    options, rest = _parse(line)
    flags = shlex.split(options.flags)
    if not options.run:
        namespace.update(define(cell, flags))
        return
    code = run(cell, rest, flags)
    if code != 0:
        raise CppCompileError(f"the program failed with exit code {code}")


def load_ipython_extension(ipython) -> None:
    """Called by `%load_ext accelerate_cpp`."""
    ipython.register_magic_function(
        lambda line, cell: cpp(line, cell, ipython.user_ns), magic_kind="cell", magic_name="cpp"
    )
