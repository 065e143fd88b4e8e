# SPDX-License-Identifier: Apache-2.0
"""Bundles shared libraries into a wheel, and determines the oldest system that the wheel runs on.

A `manylinux` wheel may only use basic system libraries, such as the C and C++ libraries (PEP 600). All other libraries
that the package needs are copied into the wheel under a different name, since the process may already have loaded
another version of the same library for another package.
"""

import re
import shutil
import struct
import subprocess
from pathlib import Path

# Libraries that every system has, according to PEP 600.
_SYSTEM = re.compile(
    r"(ld-linux[\w-]*|lib(c|m|dl|rt|pthread|util|nsl|resolv|gcc_s|stdc\+\+|z|expat|atomic))\.so(\.\d+)*$"
)
# torch's libraries, our own libraries, and Open MPI, which the MPI plugin takes from the machine it runs on.
_ELSEWHERE = re.compile(r"lib(torch|c10|cu|nv|nccl|accelerate|transformers|mpi|mpi_cxx|open-(pal|rte))[\w-]*\.so")
# (minor version of GLIBCXX_3.4, minor version of glibc 2 on the oldest systems that have it)
_CXX = ((25, 31), (29, 34), (30, 35), (31, 39), (33, 41))
_NEWEST_CXX = 33
_DT_NEEDED, _DT_STRTAB, _DT_STRSZ, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 1, 5, 10, 14, 15, 29


def bundled_name(name: str) -> str:
    """`libzmq.so.5` → `aclzmq.so.5`; the new name must have the same length."""
    return "acl" + name[3:]


class Elf:
    """A 64-bit program or library, and its dynamic section."""

    def __init__(self, path: Path):
        self.path = path
        self.data = bytearray(path.read_bytes())
        self._loads, dynamic = [], None
        offset, size, count = (*struct.unpack_from("<Q", self.data, 32), *struct.unpack_from("<HH", self.data, 54))
        for i in range(count):
            kind, _, at, address, _, length = struct.unpack_from("<IIQQQQ", self.data, offset + i * size)
            if kind == 1:
                self._loads.append((address, at, length))
            elif kind == 2:
                dynamic = (at, length)
        self._entries = range(dynamic[0], sum(dynamic), 16) if dynamic else range(0)

    def _values(self, tag: int) -> list:
        pairs = (struct.unpack_from("<qQ", self.data, at) for at in self._entries)
        return [value for key, value in pairs if key == tag]

    def _strings(self) -> tuple:
        """The file offsets of the beginning and the end of the string table."""
        address, size = self._values(_DT_STRTAB)[0], self._values(_DT_STRSZ)[0]
        start = next(at + address - first for first, at, length in self._loads if first <= address < first + length)
        return start, start + size

    def needed(self) -> list:
        if not self._entries:
            return []
        start, _ = self._strings()
        offsets = [start + value for value in self._values(_DT_NEEDED)]
        return [self.data[offset : self.data.index(0, offset)].decode() for offset in offsets]

    def rename(self, names: dict) -> None:
        """Replaces library names: the names of the libraries it needs, and its own soname."""
        start, end = self._strings()
        table = bytes(self.data[start:end])
        for old, new in names.items():
            # An entry of the string table may be a suffix of a longer string, but library names never are.
            table = table.replace(b"\0" + old.encode() + b"\0", b"\0" + new.encode() + b"\0")
        self.data[start:end] = table

    def use_rpath(self) -> None:
        """Turns RUNPATH into RPATH, which also applies to bundled system libraries: they have no path of their own."""
        for at in self._entries:
            if struct.unpack_from("<q", self.data, at)[0] == _DT_RUNPATH:
                struct.pack_into("<q", self.data, at, _DT_RPATH)

    def write(self) -> None:
        self.path.write_bytes(self.data)


def is_foreign(name: str) -> bool:
    return not _SYSTEM.match(name) and not _ELSEWHERE.match(name)


def elf_files(folder: Path) -> list:
    def is_elf(path: Path) -> bool:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF"

    return [path for path in sorted(folder.rglob("*")) if path.is_file() and is_elf(path)]


def bundle(target: Path) -> list:
    """Copies the libraries that the files in `target` need, directly or indirectly, into `lib`; returns their names."""
    names: dict = {}
    for file in elf_files(target):
        names.update(_needs(file))
    for name, path in names.items():
        shutil.copyfile(path, target / "lib" / bundled_name(name))
    renamed = {name: bundled_name(name) for name in names}
    for file in elf_files(target):
        elf = Elf(file)
        elf.rename(renamed)
        elf.use_rpath()
        elf.write()
    for name, path in names.items():
        _copy_license(path, target / "share" / "licenses", name)
    return sorted(names)


def _needs(file: Path) -> dict:
    """The system libraries that a file needs, directly or indirectly, and their paths on this machine."""
    found: dict = {}
    pending = [name for name in Elf(file).needed() if is_foreign(name)]
    if not pending:
        return found
    text = subprocess.run(["ldd", str(file)], capture_output=True, text=True).stdout
    paths = dict(re.findall(r"(\S+) => (/\S+)", text))
    while pending:
        name = pending.pop()
        if name not in paths:
            raise SystemExit(f"error: {file.name} needs {name}, which is not installed on this machine")
        if name not in found:
            found[name] = paths[name]
            pending += [other for other in Elf(Path(paths[name])).needed() if is_foreign(other)]
    return found


def _copy_license(path: str, folder: Path, name: str) -> None:
    """Copies the license of a library from a Debian package."""
    resolved = str(Path(path).resolve())
    # If /lib is a link to /usr/lib, packages may still list the file in /lib.
    for listed_path in (resolved, resolved.removeprefix("/usr")):
        owner = subprocess.run(["dpkg", "-S", listed_path], capture_output=True, text=True)
        if owner.returncode == 0:
            break
    text = Path("/usr/share/doc") / owner.stdout.split(":")[0] / "copyright"
    if owner.returncode == 0 and text.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(text, folder / f"{name}.txt")


def oldest_glibc(target: Path) -> int:
    """The minor version of the oldest glibc 2 that has all symbols these files need."""
    minimum = 17
    for file in elf_files(target):
        text = subprocess.run(["readelf", "-V", "-W", str(file)], check=True, capture_output=True, text=True).stdout
        # Skips the versions that the file itself defines.
        text = text.partition("Version needs section")[2]
        minimum = max([minimum, *(int(minor) for minor in re.findall(r"Name: GLIBC_2\.(\d+)", text))])
        for minor in re.findall(r"Name: GLIBCXX_3\.4\.(\d+)", text):
            minimum = max([minimum, *(glibc for first, glibc in _CXX if int(minor) >= first)])
            if int(minor) > _NEWEST_CXX:
                raise SystemExit(f"error: {file.name} needs GLIBCXX_3.4.{minor}, which is not in the table `_CXX` yet")
    return minimum
