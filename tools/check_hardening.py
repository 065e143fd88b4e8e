#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that programs and libraries are built with the protections of ACCELERATE_HARDENING.

    tools/check_hardening.py <folder>...

- RELRO and BIND_NOW: the table of imported functions is read-only before the program starts.
- Stack protector: an overwritten return address ends the program.
- FORTIFY: functions of the C library check the size of the buffers they write to. Small files
  may not call such a function, so at least one file in the folders must.
"""

import re
import subprocess
import sys
from pathlib import Path

import tree
from check_runpaths import is_elf

RELRO = re.compile(r"^\s*GNU_RELRO\s", re.MULTILINE)
BIND_NOW = re.compile(r"\(BIND_NOW\)|\(FLAGS\).*\bBIND_NOW\b|\(FLAGS_1\).*\bNOW\b")
STACK_PROTECTOR = "__stack_chk_fail"
FORTIFIED = re.compile(r"\b__(?!stack)\w+_chk\b")


def readelf(path):
    return subprocess.run(["readelf", "--wide", "--segments", "--dynamic", "--dyn-syms", path],
                          capture_output=True, text=True, check=True).stdout


def findings_in(name, text):
    """Yields the protections that are missing from the output of `readelf`."""
    if not RELRO.search(text):
        yield f"{name}: no RELRO; link it with `-Wl,-z,relro`"
    if not BIND_NOW.search(text):
        yield f"{name}: symbols are bound lazily; link it with `-Wl,-z,now`"
    if STACK_PROTECTOR not in text:
        yield f"{name}: no stack protector; compile it with `-fstack-protector-strong`"


def check(folders):
    findings = []
    fortified = False
    for folder in folders:
        for path in sorted(Path(folder).rglob("*")):
            if "CMakeFiles" not in path.parts and is_elf(path):
                text = readelf(path)
                findings += findings_in(path, text)
                fortified = fortified or bool(FORTIFIED.search(text))
    if not fortified:
        findings.append(f"{' '.join(map(str, folders))}: no file calls a fortified function; "
                        "compile with `-D_FORTIFY_SOURCE=2` and optimization")
    return findings


if __name__ == "__main__":
    sys.exit(tree.report("hardening", check(sys.argv[1:])))
