#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that each feature example is the base program plus marked blocks.

    tools/check_examples.py [folder of the tree]

Without its opening comment, its regions, and what stands between
`// New code` and `// End of new code`, a file of examples/by_feature/ equals
examples/base.cpp, and examples/complete_nlp_example.cpp equals
examples/nlp_example.cpp.
"""

import difflib
import sys
from pathlib import Path

import tree

BASE = Path("examples/base.cpp")
FEATURES = Path("examples/by_feature")
NLP, COMPLETE = (Path("examples/nlp_example.cpp"),
                 Path("examples/complete_nlp_example.cpp"))
BEGIN, END = "// New code", "// End of new code"
# Files that need not equal the base, with a reason each: none.
EXCLUDED = {}


def program(lines):
    """The lines after the opening comment, without marks of regions."""
    first = next((i for i, line in enumerate(lines)
                  if not line.startswith("//")), len(lines))
    for line in lines[first:]:
        mark = line.strip()
        if mark != "// endregion" and not mark.startswith("// region: "):
            yield line


def without_blocks(lines):
    """The lines outside of marked blocks, and what is wrong with the marks."""
    kept, blocks, inside, wrong = [], 0, False, []
    for line in lines:
        mark = line.strip()
        if mark == BEGIN:
            if inside:
                wrong.append(f"`{BEGIN}` inside a block")
            inside, blocks = True, blocks + 1
        elif mark == END:
            if not inside:
                wrong.append(f"`{END}` without `{BEGIN}`")
            inside = False
        elif not inside:
            kept.append(line)
    if inside:
        wrong.append(f"a block without `{END}`")
    if not blocks:
        wrong.append(f"no block begins with `{BEGIN}`")
    return kept, wrong


def check_feature(root, name, base_name):
    base = list(program((root / base_name).read_text().splitlines()))
    lines = program((root / name).read_text().splitlines())
    kept, wrong = without_blocks(lines)
    for what in wrong:
        yield f"{name}: {what}"
    difference = list(difflib.unified_diff(
        base, kept, str(base_name), f"{name} without its blocks", n=1, lineterm=""))
    if difference and not wrong:
        yield "\n  ".join([f"{name}: differs from the base outside of its blocks",
                           *difference])


def check(root):
    if not (root / BASE).is_file():
        return [f"{BASE} does not exist"]
    names = [name for name in tree.files(root)
             if name.parent == FEATURES and name.suffix == ".cpp"]
    findings = [] if names else [f"{FEATURES}/ has no example"]
    for name in names:
        if name.name not in EXCLUDED:
            findings.extend(check_feature(root, name, BASE))
    if (root / NLP).is_file() and (root / COMPLETE).is_file():
        findings.extend(check_feature(root, COMPLETE, NLP))
    return findings


if __name__ == "__main__":
    ROOT = Path(sys.argv[1]) if len(sys.argv) > 1 else tree.ROOT
    sys.exit(tree.report("examples", check(ROOT)))
