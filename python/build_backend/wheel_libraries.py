# SPDX-License-Identifier: Apache-2.0
"""The libraries that a wheel brings along, and the oldest system it runs on.

A `manylinux` wheel needs nothing of its host but the C and C++ libraries and the like (PEP 600). What else our
programs need is copied beside them, under a name of our own: a process may have another version of the same library
under its own name, for Python's modules or for another package.
"""

import re
import shutil
import struct
import subprocess
from pathlib import Path

# What every system has, by PEP 600.
_SYSTEM = re.compile(
    r"(ld-linux[\w-]*|lib(c|m|dl|rt|pthread|util|nsl|resolv|gcc_s|stdc\+\+|z|expat|atomic))\.so(\.\d+)*$"
)
# What comes with torch; what is ours; and a plugin's other side, which only its host can have.
_ELSEWHERE = re.compile(r"lib(torch|c10|cu|nv|nccl|accelerate|transformers|mpi|mpi_cxx|open-(pal|rte))[\w-]*\.so")
# From which minor of GLIBCXX_3.4 on a system is one with which minor of glibc 2.
_CXX = ((25, 31), (29, 34), (30, 35), (31, 39), (33, 41))
_NEWEST_CXX = 33
_DT_NEEDED, _DT_STRTAB, _DT_STRSZ, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 1, 5, 10, 14, 15, 29


def own_name(name: str) -> str:
    """`libzmq.so.5` → `aclzmq.so.5`: it has to fit into the place of the old one."""
    return "acl" + name[3:]


class Elf:
    """A program or library of 64 bits, and what its dynamic section says."""

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
        """Where the names begin and end in the file."""
        address, size = self._values(_DT_STRTAB)[0], self._values(_DT_STRSZ)[0]
        start = next(at + address - first for first, at, length in self._loads if first <= address < first + length)
        return start, start + size

    def needed(self) -> list:
        if not self._entries:
            return []
        start, _ = self._strings()
        places = [start + value for value in self._values(_DT_NEEDED)]
        return [self.data[place : self.data.index(0, place)].decode() for place in places]

    def rename(self, names: dict) -> None:
        """Puts other names in place of those of libraries: what it needs, and what it is called itself."""
        start, end = self._strings()
        table = bytes(self.data[start:end])
        for old, new in names.items():
            # A name may be the end of a longer one; those of libraries are not.
            table = table.replace(b"\0" + old.encode() + b"\0", b"\0" + new.encode() + b"\0")
        self.data[start:end] = table

    def search_for_all(self) -> None:
        """Lets its path count for what its libraries need, too: those of the system have none of their own."""
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
    """Copies what programs and libraries need into `lib`, and what that needs; returns their names."""
    names: dict = {}
    for file in elf_files(target):
        names.update(_needs(file))
    for name, path in names.items():
        shutil.copyfile(path, target / "lib" / own_name(name))
    renamed = {name: own_name(name) for name in names}
    for file in elf_files(target):
        elf = Elf(file)
        elf.rename(renamed)
        elf.search_for_all()
        elf.write()
    for name, path in names.items():
        _copy_licence(path, target / "share" / "licenses", name)
    return sorted(names)


def _needs(file: Path) -> dict:
    """The libraries that a file needs of its host, directly or not, and where they are here."""
    found: dict = {}
    open_ = [name for name in Elf(file).needed() if is_foreign(name)]
    if not open_:
        return found
    text = subprocess.run(["ldd", str(file)], capture_output=True, text=True).stdout
    places = dict(re.findall(r"(\S+) => (/\S+)", text))
    while open_:
        name = open_.pop()
        if name not in places:
            raise SystemExit(f"error: {file.name} needs {name}, which is not on this host")
        if name not in found:
            found[name] = places[name]
            open_ += [other for other in Elf(Path(places[name])).needed() if is_foreign(other)]
    return found


def _copy_licence(path: str, folder: Path, name: str) -> None:
    """Of a library that Debian packed."""
    place = str(Path(path).resolve())
    # Where /lib is a link to /usr/lib, packages may still say /lib.
    for name_there in (place, place.removeprefix("/usr")):
        owner = subprocess.run(["dpkg", "-S", name_there], capture_output=True, text=True)
        if owner.returncode == 0:
            break
    text = Path("/usr/share/doc") / owner.stdout.split(":")[0] / "copyright"
    if owner.returncode == 0 and text.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(text, folder / f"{name}.txt")


def oldest_glibc(target: Path) -> int:
    """The minor of the oldest glibc 2 that has every symbol which these files need."""
    least = 17
    for file in elf_files(target):
        text = subprocess.run(["readelf", "-V", "-W", str(file)], check=True, capture_output=True, text=True).stdout
        # The versions of what it needs; those it defines itself come before.
        text = text.partition("Version needs section")[2]
        least = max([least, *(int(minor) for minor in re.findall(r"Name: GLIBC_2\.(\d+)", text))])
        for minor in re.findall(r"Name: GLIBCXX_3\.4\.(\d+)", text):
            least = max([least, *(glibc for first, glibc in _CXX if int(minor) >= first)])
            if int(minor) > _NEWEST_CXX:
                raise SystemExit(f"error: {file.name} needs GLIBCXX_3.4.{minor}, which is too new to be in the table")
    return least
