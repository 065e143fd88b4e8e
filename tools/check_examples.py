#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that each feature example is the base program plus marked blocks.

    tools/check_examples.py [root of the tree]

Without its opening comment, its region marks, and the blocks between
`// New code` and `// End of new code`, a file in examples/by_feature/ must
equal examples/base.cpp, and examples/complete_nlp_example.cpp must equal
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
# Files that do not have to match base.cpp, each with a reason; currently none.
EXCLUDED = {}


def program(lines):
    """Yields the lines after the opening comment, without region marks."""
    first = next((i for i, line in enumerate(lines)
                  if not line.startswith("//")), len(lines))
    for line in lines[first:]:
        mark = line.strip()
        if mark != "// endregion" and not mark.startswith("// region: "):
            yield line


def without_blocks(lines):
    """Returns the lines outside marked blocks, and the errors in the marks."""
    kept, blocks, inside, errors = [], 0, False, []
    for line in lines:
        mark = line.strip()
        if mark == BEGIN:
            if inside:
                errors.append(f"`{BEGIN}` inside a block")
            inside, blocks = True, blocks + 1
        elif mark == END:
            if not inside:
                errors.append(f"`{END}` without `{BEGIN}`")
            inside = False
        elif not inside:
            kept.append(line)
    if inside:
        errors.append(f"a block without `{END}`")
    if not blocks:
        errors.append(f"no block begins with `{BEGIN}`")
    return kept, errors


def check_feature(root, name, base_name):
    base = list(program((root / base_name).read_text().splitlines()))
    lines = program((root / name).read_text().splitlines())
    kept, errors = without_blocks(lines)
    for error in errors:
        yield f"{name}: {error}"
    difference = list(difflib.unified_diff(
        base, kept, str(base_name), f"{name} without its blocks", n=1, lineterm=""))
    if difference and not errors:
        yield "\n  ".join([f"{name}: differs from the base outside its marked blocks",
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
