# SPDX-License-Identifier: Apache-2.0
"""C++ cells, compiled with a precompiled header and kept by their content."""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import cpp_functions, errors

# Parsed once for an installation; every cell begins with it.
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

# A base before what derives from it.
_ERRORS = [name for name, kind in vars(errors).items() if isinstance(kind, type) and kind.__base__ is not RuntimeError]

# Our exceptions become those of the package, LibTorch's lose their stack.
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

LONGEST_COMPILE = 600  # seconds


class CompilerError(Exception):
    """The compiler's messages."""


@dataclass(frozen=True)
class Cell:
    path: Path
    functions: tuple


@dataclass(frozen=True)
class Installation:
    """Where headers and libraries are, from the file the command itself reads."""

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
        given = os.environ.get("ACCELERATE_TOOLCHAIN")
        path = Path(given) if given else Path(__file__).parent / "share" / "accelerate" / "toolchain.json"
        if not path.exists():
            raise CompilerError(
                f"there is no {path}, which says where the C++ headers are\n"
                "hint: install the package, or set ACCELERATE_TOOLCHAIN to the file of a build"
            )
        text = path.read_text().replace("@PREFIX@", str(path.parents[2]))
        content = json.loads(text)
        flags = content["flags"]
        folders = [flag[2:] for flag in content["link_flags"] if flag.startswith("-L")]
        return Installation(
            path, _compiler(content["compiler"]), flags[flags.index("-isystem") + 1], tuple(content["libraries"]), folders[0]
        )


def _compiler(preferred: str) -> str:
    """clang 19 where there is one: it reads the header in a second, g++ in seven."""
    for name in (os.environ.get("ACCELERATE_CXX"), "clang++-19", preferred, "g++", "clang++"):
        found = shutil.which(name) if name else None
        if found:
            return found
    raise CompilerError("there is no C++ compiler\nhint: install one: `apt-get install g++`, or clang-19")


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "accelerate-cpp" / "cells"


def _flags(installation: Installation) -> list:
    import torch

    headers = Path(torch.__file__).parent / "include"
    python = sysconfig.get_paths()["include"]
    if not (Path(python) / "Python.h").exists():
        raise CompilerError(
            f"there is no Python.h in {python}\nhint: install Python's headers: `apt-get install python3-dev`"
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
    """What makes a header or a cell stale: the libraries, our headers, the compiler, torch."""
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
    """Only this process compiles into `folder`; waits as long as another may take."""
    folder.mkdir(parents=True, exist_ok=True)
    limit = time.monotonic() + LONGEST_COMPILE
    with open(folder / "lock", "w") as file:
        while not _lock(file):
            if time.monotonic() > limit:
                raise CompilerError(
                    f"another process has been compiling for {LONGEST_COMPILE} s and holds {file.name}\n"
                    "hint: end that process, then run the cell again"
                )
            time.sleep(0.1)
        yield


def _lock(file) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _execute(words: list) -> str:
    """Runs the compiler; returns its messages, raises with them."""
    try:
        done = subprocess.run(
            list(map(str, words)), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONGEST_COMPILE
        )
    except subprocess.TimeoutExpired:
        raise CompilerError(f"the compiler did not end within {LONGEST_COMPILE} s") from None
    if done.returncode != 0:
        raise CompilerError(done.stderr or f"{words[0]} ended with code {done.returncode}")
    return done.stderr


def _precompiled_header(installation: Installation, flags: list, fingerprint: str, say) -> Path:
    folder = cache_folder() / "headers" / _key(PRELUDE, fingerprint, *flags)
    header = folder / "cell.h"
    result = folder / ("cell.h.pch" if "clang" in installation.compiler else "cell.h.gch")
    with _locked(folder):
        if not result.exists():
            say("Precompiling the headers of LibTorch for C++ cells, once for this installation …")
            header.write_text(PRELUDE)
            temporary = folder / "part"
            words = [installation.compiler, *flags, "-x", "c++-header", header, "-o", temporary]
            _execute(words + (["-fpch-instantiate-templates"] if "clang" in installation.compiler else []))
            temporary.rename(result)
    return header


def _source(code: str, functions: list, module: str) -> str:
    """The cell with its own line numbers, then what makes its functions Python's."""
    text = f'#line 1 "cell"\n{code}\n'
    if functions is None:
        return text
    lines = [function.binding() for function in functions]
    return text + f'#line 1 "bindings"\nPYBIND11_MODULE({module}, module) {{{_TRANSLATOR}{"".join(lines)}}}\n'


def compile_cell(code: str, flags: list, program: bool, say) -> Cell:
    """Compiles a cell into a library with its functions, or into a program. `say` is told what takes long.

    Raises `CompilerError` with lines of the cell.
    """
    installation = Installation.find()
    all_flags = [*_flags(installation), *flags]
    fingerprint = _fingerprint(installation)
    functions = None if program else cpp_functions.find_functions(code)
    if functions == []:
        raise CompilerError(
            "the cell defines no function, so there is nothing to call\n"
            "hint: define one, or run a program with `%%cpp --run`"
        )
    key = _key(_source(code, functions, "cell"), fingerprint, *all_flags)
    folder = cache_folder() / key
    module = f"cell_{key}"
    result = folder / ("program" if program else f"{module}.so")
    names = tuple(dict.fromkeys(function.name for function in functions or []))
    if result.exists():
        return Cell(result, names)
    header = _precompiled_header(installation, all_flags, fingerprint, say)
    with _locked(folder):
        if not result.exists():
            source = folder / "cell.cpp"
            source.write_text(_source(code, functions, module))
            temporary = folder / "part"
            words = [installation.compiler, *all_flags, "-include", header, source, "-o", temporary]
            _execute([*words, *_link_flags(installation, program)])
            temporary.rename(result)
    return Cell(result, names)
