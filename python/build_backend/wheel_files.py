# SPDX-License-Identifier: Apache-2.0
"""Stages the files for the wheel: the Python package and an installation of the C++ part inside it.

No file may contain a path from the build machine. The package is installed next to torch: libraries find torch at
`../torch/lib`, relative to the package, and programs that the command compiles get torch's folder from
`share/accelerate/toolchain.json`.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import wheel_libraries
from wheel_libraries import elf_files


def stage(build: Path, package: Path, target: Path) -> None:
    subprocess.run(["cmake", "--install", str(build), "--prefix", str(target), "--strip"], check=True, stdout=subprocess.DEVNULL)
    torch = _cached(build, "TORCH_DIR") or _torch_of(target)
    shutil.copytree(package, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    for extension in (build / "python" / "accelerate_cpp").glob("_core*.so"):
        shutil.copy(extension, target)
        subprocess.run(["strip", "--strip-unneeded", str(target / extension.name)], check=True)
    _resolve_links(target)
    wheel_libraries.bundle(target)
    for file in elf_files(target):
        _set_runpath(file, target)
    for file in [target / "share/accelerate/toolchain.json", *target.rglob("*.cmake")]:
        _move_paths(file, target, torch)
    _check(target, build, torch)


def _cached(build: Path, name: str) -> str:
    found = re.search(rf"^{name}:\w+=(.+)$", (build / "CMakeCache.txt").read_text(), re.M)
    return os.path.realpath(found.group(1)) if found else ""


def _torch_of(target: Path) -> str:
    """The torch folder that the build used."""
    text = (target / "share/accelerate/toolchain.json").read_text()
    return re.search(r'"-L([^"@]*/torch/lib)"', text).group(1)[: -len("/lib")]


def _resolve_links(target: Path) -> None:
    """Replaces symbolic links with copies, since wheels cannot contain links; keeps the soname of libraries."""
    for link in [path for path in target.rglob("*") if path.is_symlink()]:
        source = link.resolve()
        link.unlink()
        if link.parent.name != "bin":  # the environment has scripts for `accelerate-launch` and the like
            shutil.copy(source, link)
    for library in list((target / "lib").glob("*.so.*.*.*")):
        library.unlink()


def _runpath(file: Path) -> str:
    text = subprocess.run(["readelf", "-d", str(file)], check=True, capture_output=True, text=True).stdout
    found = re.search(r"R(?:UN)?PATH\).*\[(.*)\]", text)
    return found.group(1) if found else ""


def _from_origin(folder: Path, start: Path) -> str:
    relative = os.path.relpath(folder, start)
    return "$ORIGIN" if relative == "." else f"$ORIGIN/{relative}"


def _set_runpath(file: Path, target: Path) -> None:
    """Replaces the RUNPATH of a file with relative paths; the new RUNPATH must not be longer than the old one."""
    old = _runpath(file)
    if not old:
        return
    folders = {
        "lib": target / "lib",
        "torch": target.parent / "torch" / "lib",
        "nvidia": target.parent / "nvidia" / "cu13" / "lib",
    }
    kinds = ["lib"] + [kind for kind in ("torch", "nvidia") if kind in old]
    new = ":".join(_from_origin(folders[kind], file.parent) for kind in kinds)
    if len(new) > len(old):
        raise SystemExit(f"error: the new RUNPATH `{new}` of {file.name} is longer than the old one, `{old}`")
    data = file.read_bytes()
    runpath = old.encode() + b"\0"
    if data.count(runpath) != 1:
        raise SystemExit(f"error: {file.name} contains its RUNPATH {data.count(runpath)} times instead of once")
    file.write_bytes(data.replace(runpath, new.encode() + b"\0" * (len(runpath) - len(new))))


def _move_paths(file: Path, target: Path, torch: str) -> None:
    """Replaces the path of the build's torch with the path of the torch next to the package."""
    text = file.read_text()
    if file.suffix == ".json":
        text = text.replace(str(torch), "@PREFIX@/../torch")
        text = re.sub(r'("compiler": ")/\S*/', r"\1", text)  # the compiler's name only, found on PATH
    else:
        text = text.replace(f'"{torch}"', '"${CMAKE_CURRENT_LIST_DIR}/../../../../torch"')
        text = re.sub(r"(lib\w+\.so\.\d+\.\d+)\.\d+", r"\1", text)
    file.write_text(text)


def _check(target: Path, build: Path, torch: str) -> None:
    programs = set(elf_files(target))
    for file in target.rglob("*"):
        if not file.is_file():
            continue
        if file in programs:
            absolute = [part for part in _runpath(file).split(":") if part.startswith("/")]
        else:
            text = file.read_bytes()
            absolute = [path for path in (str(build), str(torch)) if path.encode() in text]
        if absolute:
            raise SystemExit(f"error: {file.relative_to(target)} contains {absolute[0]}, a path from the build machine")
