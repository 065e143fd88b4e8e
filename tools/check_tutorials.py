#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the translations of a tutorial match, and that its code runs.

    tools/check_tutorials.py [root of the tree]

docs/tutorials/<language>/<page>.md is a translation of docs/tutorials/<page>.md.

- a translated page exists in all LANGUAGES
- its first lines link to the page in the other languages
- it has the same blocks as the English page, in the same order
- it links to everything that the English page links to
- a block of C++, CMake or Python equals the region or notebook cell it names;
  a diff block is the difference between the two regions it names:
  `<!-- diff: examples/a.cpp#loop examples/b.cpp#loop -->`
- a notebook cell whose metadata names a region (`"region": "a.py#loop"`) equals
  it, apart from a magic (`%%cpp`) on the first line
"""

import difflib
import json
import re
import sys
from pathlib import Path

import check_tree
import tree

FOLDER = Path("docs/tutorials")
LANGUAGES = ["fr", "it", "pt", "ko"]
HEAD_LINES = 6
TIED = {"cpp", "cmake", "python", "diff"}
MARK = re.compile(r"<!-- (region|diff): ([^>]*) -->\n$")
NAME = re.compile(r"([\w./-]+)#([\w-]+)")


def blocks(text):
    """Yields the line, language, mark and text of each block."""
    for block in check_tree.FENCE.finditer(text):
        mark = MARK.search(text[:block.start()])
        line = text.count("\n", 0, block.start()) + 1
        yield line, block[1], mark and (mark[1], mark[2]), block[2]


def lookup(root, name):
    """The text of `file#region`. Raises LookupError if there is none."""
    parts = NAME.fullmatch(name)
    if not parts:
        raise LookupError(f"`{name}` is not `file#region`")
    if not (root / parts[1]).is_file():
        raise LookupError(f"{parts[1]} does not exist")
    text = check_tree.region(root / parts[1], parts[2])
    if text is None:
        raise LookupError(f"{parts[1]} has no region `{parts[2]}`")
    return text


def difference(before, after):
    """Returns all lines of both texts, each with `-`, `+` or a space in
    front."""
    before, after = before.splitlines(), after.splitlines()
    lines = []
    for operation, a, b, c, d in difflib.SequenceMatcher(
            None, before, after, autojunk=False).get_opcodes():
        if operation == "equal":
            lines += [f"  {line}".rstrip() for line in before[a:b]]
        else:
            lines += [f"- {line}".rstrip() for line in before[a:b]]
            lines += [f"+ {line}".rstrip() for line in after[c:d]]
    return "\n".join(lines) + "\n"


def expected_text(root, mark):
    """Returns the text that a block must have according to its mark."""
    kind, names = mark
    if kind == "region":
        return lookup(root, names)
    before, _, after = names.partition(" ")
    return difference(lookup(root, before), lookup(root, after))


def check_blocks(root, name):
    for line, language, mark, text in blocks((root / name).read_text()):
        if language not in TIED:
            continue
        if not mark:
            yield f"{name}:{line}: the block does not name a region"
            continue
        try:
            if expected_text(root, mark) != text:
                yield f"{name}:{line}: the block differs from {mark[1]}"
        except LookupError as error:
            yield f"{name}:{line}: {error}"


def check_same_blocks(root, original, name):
    expected = [block[1:] for block in blocks((root / original).read_text())]
    found = list(blocks((root / name).read_text()))
    for number, (block, translated) in enumerate(zip(expected, found), 1):
        if block != translated[1:]:
            yield f"{name}:{translated[0]}: block {number} differs from {original}"
            return
    if len(expected) != len(found):
        yield f"{name}: has {len(found)} blocks, but {original} has {len(expected)}"


def targets(root, name):
    """The files that a page links to, without web addresses."""
    links = check_tree.LINK.findall((root / name).read_text())
    return {(root / name.parent / link).resolve() for link in links if "://" not in link}


def check_same_links(root, original, name, family):
    translations = {(root / other).resolve() for other in family}
    missing = targets(root, original) - targets(root, name) - translations
    for target in sorted(missing):
        yield f"{name}: does not link to {target.relative_to(root)}, but {original} does"


def check_language_line(root, name, family):
    """Checks that each page links to its translations."""
    head = "\n".join((root / name).read_text().splitlines()[:HEAD_LINES])
    targets = {(root / name.parent / link).resolve() for link in check_tree.LINK.findall(head)}
    for other in family:
        if other != name and (root / other).resolve() not in targets:
            yield f"{name}: its first lines do not link to {other}"


def check_page(root, page):
    original = FOLDER / page
    family = [original, *(FOLDER / language / page for language in LANGUAGES)]
    existing = [name for name in family if (root / name).is_file()]
    for name in family:
        if name not in existing:
            yield f"{name}: does not exist, but {page} has other translations"
    if original not in existing:
        return
    for name in existing:
        yield from check_language_line(root, name, existing)
        yield from check_blocks(root, name)
        if name != original:
            yield from check_same_blocks(root, original, name)
            yield from check_same_links(root, original, name, family)


def code_of(cell):
    """The text of a cell without a magic on its first line."""
    lines = "".join(cell["source"]).splitlines()
    return "\n".join(lines[1:] if lines[:1] and lines[0].startswith("%%") else lines) + "\n"


def check_notebook(root, name):
    for cell in json.loads((root / name).read_text())["cells"]:
        region = cell.get("metadata", {}).get("region")
        if region is None:
            continue
        try:
            if lookup(root, region) != code_of(cell):
                yield f"{name}: the cell `{cell.get('id')}` differs from {region}"
        except LookupError as error:
            yield f"{name}: {error}"


def check(root):
    root = root.resolve()
    names = tree.files(root)
    pages = {name.name for name in names
             if name.suffix == ".md" and name.parent.parent == FOLDER}
    findings = [finding for page in sorted(pages) for finding in check_page(root, page)]
    for name in names:
        if name.suffix == ".ipynb":
            findings += check_notebook(root, name)
    return findings


if __name__ == "__main__":
    sys.exit(tree.report(
        "tutorials", check(Path(sys.argv[1]) if len(sys.argv) > 1 else tree.ROOT)))
