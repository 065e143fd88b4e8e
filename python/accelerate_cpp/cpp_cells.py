# SPDX-License-Identifier: Apache-2.0
"""Compiles C++ cells with a precompiled header, and caches them by their content."""

import fcntl
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import cpp_functions, errors

# Precompiled once per installation; included at the beginning of every cell.
PRELUDE = """\
#include <torch/extension.h>
#include <accelerate/accelerate.h>
#include <accelerate/launchers.h>
#include <transformers/transformers.h>
#include <cstdio>
#include <iostream>
#include <map>
#include <string>
#include <tuple>
#include <vector>
"""

# Base classes come before the classes that derive from them.
_ERRORS = [name for name, kind in vars(errors).items() if isinstance(kind, type) and kind.__base__ is not RuntimeError]

# Translates C++ exceptions to this package's Python exceptions, and strips the stack trace from LibTorch's exceptions.
_TRANSLATOR = """
  pybind11::register_local_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) {
        std::rethrow_exception(pointer);
      }
    } catch (const accelerate::Error& error) {
      const char* name = "Error";
@NAMES@      const pybind11::object type = pybind11::module_::import("accelerate_cpp.errors").attr(name);
      PyErr_SetObject(type.ptr(), type(error.what(), error.hint()).ptr());
    } catch (const c10::Error& error) {
      PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
    }
  });
""".replace(
    "@NAMES@",
    "".join(
        f'      name = dynamic_cast<const accelerate::{name}*>(&error) != nullptr ? "{name}" : name;\n'
        for name in _ERRORS
    ),
)

COMPILE_TIMEOUT = 600  # seconds


class CompilerError(Exception):
    """A cell cannot be compiled; the text holds the compiler's messages."""


@dataclass(frozen=True)
class Cell:
    path: Path
    functions: tuple


@dataclass(frozen=True)
class Installation:
    """The locations of headers and libraries, from the toolchain file that the `accelerate` command also reads."""

    description: Path
    compiler: str
    include: str
    libraries: tuple
    library_folder: str

    @property
    def command(self) -> Path:
        return self.description.parents[2] / "bin" / "accelerate"

    @staticmethod
    def find() -> "Installation":
        variable = os.environ.get("ACCELERATE_TOOLCHAIN")
        path = Path(variable) if variable else Path(__file__).parent / "share" / "accelerate" / "toolchain.json"
        if not path.exists():
            raise CompilerError(
                f"the toolchain file {path}, which locates the C++ headers, does not exist\n"
                "hint: install the package, or set ACCELERATE_TOOLCHAIN to the toolchain.json in a build folder"
            )
        text = path.read_text().replace("@PREFIX@", str(path.parents[2]))
        content = json.loads(text)
        flags = content["flags"]
        folders = [flag[2:] for flag in content["link_flags"] if flag.startswith("-L")]
        return Installation(
            path, _compiler(content["compiler"]), flags[flags.index("-isystem") + 1], tuple(content["libraries"]), folders[0]
        )


def _compiler(preferred: str) -> str:
    """Prefers clang 19, which reads the precompiled header in one second; g++ takes seven seconds."""
    for name in (os.environ.get("ACCELERATE_CXX"), "clang++-19", preferred, "g++", "clang++"):
        found = shutil.which(name) if name else None
        if found:
            return found
    raise CompilerError("no C++ compiler found\nhint: install clang-19 or g++, for example with `apt-get install g++`")


def cache_folder() -> Path:
    """The folder of compiled cells. Only this user may write to it, because compiled cells run in this process."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    root = Path(base) / "accelerate-cpp"
    root.parent.mkdir(parents=True, exist_ok=True)
    root.mkdir(mode=0o700, exist_ok=True)
    if _can_be_changed_by_others(root.parent.stat()):
        raise CompilerError(
            f"other users can replace {root}, because they can write to {root.parent}\n"
            f"hint: run `chmod +t {root.parent}`, or set XDG_CACHE_HOME to a folder of your own"
        )
    status = root.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise CompilerError(
            f"{root} is not a folder that only this user can access\n"
            f"hint: remove {root}, or set XDG_CACHE_HOME to a folder of your own"
        )
    if status.st_mode & 0o077:
        root.chmod(0o700)
    return root / "cells"


def _can_be_changed_by_others(folder: os.stat_result) -> bool:
    """Whether other users can rename the entries of a folder; see src/base/new_file.cpp."""
    by_group = folder.st_mode & stat.S_IWGRP and folder.st_gid != folder.st_uid
    by_all = folder.st_mode & stat.S_IWOTH
    return bool(by_group or by_all) and not folder.st_mode & stat.S_ISVTX


def _flags(installation: Installation) -> list:
    import torch

    headers = Path(torch.__file__).parent / "include"
    python = sysconfig.get_paths()["include"]
    if not (Path(python) / "Python.h").exists():
        raise CompilerError(
            f"{python} does not contain Python.h\nhint: install the Python headers: `apt-get install python3-dev`"
        )
    folders = [installation.include, headers, headers / "torch/csrc/api/include", python]
    flags = ["-std=c++20", "-O1", "-fPIC", "-pthread", "-fvisibility=hidden", "-DTORCH_API_INCLUDE_EXTENSION_H"]
    for folder in folders:
        flags += ["-isystem", str(folder)]
    return flags


def _link_flags(installation: Installation, program: bool) -> list:
    import torch

    library = Path(torch.__file__).parent / "lib"
    nvidia = Path(torch.__file__).parent.parent / "nvidia" / "cu13" / "lib"
    flags = []
    for folder in (installation.library_folder, library):
        flags += [f"-L{folder}", f"-Wl,-rpath,{folder}"]
    flags += [f"-Wl,-rpath-link,{nvidia}", "-ltransformers", "-laccelerate", "-ltorch_cpu", "-lc10"]
    return flags if program else [*flags, "-shared", "-ltorch_python", "-ltorch"]


def _fingerprint(installation: Installation) -> str:
    """A key that changes when this project's libraries or headers, the compiler or torch change, to force a recompilation."""
    import torch

    parts = [installation.compiler, torch.__version__, torch.__file__, sys.version]
    for path in [*map(Path, installation.libraries), Path(installation.compiler)]:
        if path.exists():
            parts.append(f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}")
    for name in ("accelerate", "transformers"):
        folder = Path(installation.include) / name
        parts += sorted(f"{path} {path.stat().st_mtime_ns}" for path in folder.rglob("*.h"))
    return "\n".join(parts)


def _key(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]


@contextmanager
def _locked(folder: Path):
    """Locks `folder` for compiling; if another process is compiling, waits up to COMPILE_TIMEOUT."""
    folder.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + COMPILE_TIMEOUT
    with open(folder / "lock", "w") as file:
        while not _lock(file):
            if time.monotonic() > deadline:
                raise CompilerError(
                    f"another process has been compiling for {COMPILE_TIMEOUT} s and still locks {file.name}\n"
                    "hint: stop that process, then run the cell again"
                )
            time.sleep(0.1)
        yield


def _lock(file) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _execute(command: list) -> str:
    """Runs the compiler and returns its messages. Raises CompilerError with the messages if it fails."""
    try:
        result = subprocess.run(
            list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMPILE_TIMEOUT
        )
    except subprocess.TimeoutExpired:
        raise CompilerError(f"the compiler did not finish within {COMPILE_TIMEOUT} s") from None
    if result.returncode != 0:
        raise CompilerError(result.stderr or f"{command[0]} failed with exit code {result.returncode}")
    return result.stderr


def _precompiled_header(installation: Installation, flags: list, fingerprint: str, report) -> Path:
    folder = cache_folder() / "headers" / _key(PRELUDE, fingerprint, *flags)
    header = folder / "cell.h"
    result = folder / ("cell.h.pch" if "clang" in installation.compiler else "cell.h.gch")
    with _locked(folder):
        if not result.exists():
            report("Precompiling the LibTorch headers for C++ cells, once per installation …")
            header.write_text(PRELUDE)
            temporary = folder / "part"
            command = [installation.compiler, *flags, "-x", "c++-header", header, "-o", temporary]
            _execute(command + (["-fpch-instantiate-templates"] if "clang" in installation.compiler else []))
            temporary.rename(result)
    return header


def _source(code: str, functions: list, module: str) -> str:
    """The cell with its own line numbers, followed by the Python bindings of its functions."""
    text = f'#line 1 "cell"\n{code}\n'
    if functions is None:
        return text
    lines = [function.binding() for function in functions]
    return text + f'#line 1 "bindings"\nPYBIND11_MODULE({module}, module) {{{_TRANSLATOR}{"".join(lines)}}}\n'


def compile_cell(code: str, flags: list, program: bool, report) -> Cell:
    """Compiles a cell into a library that holds its functions, or into a program. Calls `report` before a slow step.

    Raises `CompilerError` with the cell's line numbers.
    """
    installation = Installation.find()
    all_flags = [*_flags(installation), *flags]
    fingerprint = _fingerprint(installation)
    functions = None if program else cpp_functions.find_functions(code)
    if functions == []:
        raise CompilerError(
            "the cell does not define a function\n"
            "hint: define a function, or run the cell as a program with `%%cpp --run`"
        )
    key = _key(_source(code, functions, "cell"), fingerprint, *all_flags)
    folder = cache_folder() / key
    module = f"cell_{key}"
    result = folder / ("program" if program else f"{module}.so")
    names = tuple(dict.fromkeys(function.name for function in functions or []))
    if result.exists():
        return Cell(result, names)
    header = _precompiled_header(installation, all_flags, fingerprint, report)
    with _locked(folder):
        if not result.exists():
            source = folder / "cell.cpp"
            source.write_text(_source(code, functions, module))
            temporary = folder / "part"
            command = [installation.compiler, *all_flags, "-include", header, source, "-o", temporary]
            _execute([*command, *_link_flags(installation, program)])
            temporary.rename(result)
    return Cell(result, names)
