#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no program or library searches the current folder for libraries.

    tools/check_runpaths.py <folder>...

The dynamic loader treats an empty element of RPATH or RUNPATH, as in `/a::/b`,
as the current folder. A user who can write to the current folder could run
code. Relative elements have the same problem.
"""

import re
import subprocess
import sys
from pathlib import Path

import tree

ENTRY = re.compile(r"\((RPATH|RUNPATH)\)\s+Library \w+: \[(.*)\]")


def is_elf(path):
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def findings_in(name, dynamic_section):
    """Yields the findings about one file from the output of `readelf -d`."""
    for kind, value in ENTRY.findall(dynamic_section):
        for element in value.split(":"):
            if not element.startswith(("/", "$ORIGIN")):
                yield (f"{name}: {kind} [{value}] has the element `{element}`, which "
                       "the loader looks up in the current folder")
                break


def check(folders):
    findings = []
    for folder in folders:
        for path in sorted(Path(folder).rglob("*")):
            if "CMakeFiles" not in path.parts and is_elf(path):
                output = subprocess.run(["readelf", "-d", path], capture_output=True,
                                        text=True, check=True).stdout
                findings += findings_in(path, output)
    return findings


if __name__ == "__main__":
    sys.exit(tree.report("runpaths", check(sys.argv[1:])))
