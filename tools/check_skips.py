#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that only tests on the list of expected skips were skipped.

    tools/check_skips.py <tests.xml of ctest> [tests/expected_skips.txt]

A line of the list is `<test name or pattern> # <reason>`. A skipped test that
matches no line is an error. A line that matches no test is also an error.
"""

import fnmatch
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import tree

# Matches the line that GoogleTest prints for a skipped test in a binary that
# runs many tests as one ctest test.
SKIPPED_INSIDE = re.compile(r"^\[  SKIPPED \] ([\w./]+)(?: \(|$)", re.MULTILINE)


def read_expected(path):
    """Returns ([pattern], [finding])."""
    patterns, findings = [], []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        pattern, _, reason = (part.strip() for part in line.partition("#"))
        if pattern and not reason:
            findings.append(f"{path.name}:{number}: `{pattern}` has no reason")
        if pattern:
            patterns.append(pattern)
    return patterns, findings


def read_results(path):
    """Returns ({all tests}, {all skipped tests})."""
    every, skipped = set(), set()
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = case.get("name")
        every.add(name)
        if case.find("skipped") is not None or case.get("status") == "disabled":
            skipped.add(name)
            continue
        for inner in SKIPPED_INSIDE.findall(case.findtext("system-out") or ""):
            full = f"{name.split('.shard_')[0]}.{inner}"
            every.add(full)
            skipped.add(full)
    return every, skipped


def check(results, expected):
    patterns, findings = read_expected(expected)
    every, skipped = read_results(results)
    if not every:
        findings.append(f"{results} contains no tests")
    for name in sorted(skipped):
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            findings.append(f"{name} was skipped but is not in {expected.name}")
    for pattern in patterns:
        # A test in a sharded binary appears by name only if it is skipped.
        binary = pattern.split(".")[0]
        known = fnmatch.filter(every, pattern) or \
            fnmatch.filter(every, f"{binary}.shard_*")
        if not known:
            findings.append(f"{expected.name}: no test matches `{pattern}`")
    return findings


if __name__ == "__main__":
    LIST = Path(sys.argv[2]) if len(sys.argv) > 2 \
        else tree.ROOT / "tests/expected_skips.txt"
    sys.exit(tree.report("skips", check(Path(sys.argv[1]), LIST)))
