#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the tree matches its documents and CMake files.

    tools/check_tree.py [root of the tree]

- every `*_test.cpp` and `*_test.py` is listed in a CMakeLists.txt under tests/
- every example is registered with `accelerate_add_example`, which runs it
- the folder map in README.md and the code map in ARCHITECTURE.md are correct
- every path and name that ARCHITECTURE.md mentions exists
- C++ and CMake blocks in documents equal the regions they name
- relative links are valid, and docs/index.md links to every page
- source files have the license line
"""

import json
import re
import sys
import textwrap
from pathlib import Path

import tree

TEST_NAME = re.compile(r"[\w./-]+_test\.(?:cpp|py)")
EXAMPLE = re.compile(r"accelerate_add_example\(\s*([\w./-]+)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMES_REGION = re.compile(r"<!-- region: ([\w./-]+)#([\w-]+) -->\n$")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w.*+-]*(?:/[\w.*+-]+)+/?|[\w*+-]+\.(?:h|cpp|cu|py|sh|cmake|txt|ipynb)")
IDENTIFIER = re.compile(r"(?:\w+(?:::|\.|->))*([A-Za-z_]\w*)(?:\(.*\))?")
SOURCE = {".cpp", ".h", ".hpp", ".cu", ".cuh", ".py", ".sh", ".cmake", ".txt", ".in"}
# What ARCHITECTURE.md mentions and other projects provide.
FOREIGN = re.compile(r"ATen/|torch/|import |/proc|https?:")
LICENSED = {".cpp", ".h", ".hpp", ".cu", ".cuh", ".py", ".sh", ".cmake"}


def named_in_cmake(root, names, folder, pattern):
    """Returns the paths in the CMake files under `folder`."""
    found = set()
    for name in names:
        is_list = name.name == "CMakeLists.txt" or name.suffix == ".cmake"
        if is_list and name.parts[0] == folder:
            for text in pattern.findall((root / name).read_text()):
                found.add(name.parent / text)
    return found


def check_tests_listed(root, names):
    listed = named_in_cmake(root, names, "tests", TEST_NAME)
    for name in names:
        if name.parts[0] == "tests" and TEST_NAME.fullmatch(name.name) \
                and name not in listed:
            yield f"{name}: no CMakeLists.txt under tests/ lists it"


def check_examples_run(root, names):
    run = named_in_cmake(root, names, "examples", EXAMPLE)
    for name in names:
        if name.parts[0] == "examples" and name.suffix == ".cpp" \
                and name.with_suffix("") not in run:
            yield f"{name}: not registered with accelerate_add_example"


def read_map(root, document, marker):
    """Returns the folders that the block after `<!-- marker -->` lists, in
    order."""
    path = root / document
    text = path.read_text() if path.exists() else ""
    _, found, rest = text.partition(f"<!-- {marker} -->\n")
    block = FENCE.match(rest)
    if not found or not block:
        return None
    entries = (line.split()[0] for line in block[2].splitlines() if line.strip())
    return [Path(entry) for entry in entries if entry.endswith("/")]


def check_map(root, document, marker, expected):
    """Checks that the map lists each `expected` folder once, and only folders
    that exist."""
    found = read_map(root, document, marker)
    if found is None:
        yield f"{document}: no block follows `<!-- {marker} -->`"
        return
    for folder in sorted(expected - set(found)):
        yield f"{document}: {folder}/ is missing from the {marker}"
    for folder in sorted(set(found)):
        if found.count(folder) > 1:
            yield f"{document}: the {marker} lists {folder}/ twice"
        if not (root / folder).is_dir():
            yield f"{document}: the {marker} lists {folder}/, which does not exist"


def check_maps(root, names):
    top = {Path(name.parts[0]) for name in names if len(name.parts) > 1}
    layers = {Path(*name.parts[:2]) for name in names
              if name.parts[0] == "src" and len(name.parts) > 2}
    yield from check_map(root, "README.md", "folder map", top)
    yield from check_map(root, "ARCHITECTURE.md", "code map", layers)


def read_cmake(root, names):
    """Returns the text of all CMake files, which contain the names of tests
    and targets."""
    return "".join((root / name).read_text() for name in names
                   if name.name == "CMakeLists.txt" or name.suffix == ".cmake")


def is_file_or_folder(name, paths):
    """Returns whether `name` matches one of `paths`. `name` may be the end of
    a path and may lack the suffix."""
    pattern = re.escape(name.rstrip("/")).replace(r"\*", r"[^/\n]*")
    return re.search(rf"^(?:.*/)?{pattern}(?:\.\w+)*(?:/.*)?$", paths, re.MULTILINE)


def words_of_code(root, names):
    """Returns all words in sources and CMake files, and the names of all
    files."""
    words = {name.stem for name in names} | {part for name in names for part in name.parts}
    for name in names:
        if name.suffix in SOURCE or name.name in ("Makefile", "run"):
            words.update(re.findall(r"\w+", (root / name).read_text(errors="replace")))
    return words


def check_architecture(root, names):
    """Checks that each path and each identifier in backticks exists."""
    path = root / "ARCHITECTURE.md"
    text = path.read_text() if path.exists() else ""
    paths = "\n".join(name.as_posix() for name in names)
    known = words_of_code(root, names)
    cmake = read_cmake(root, names)
    for mentioned in sorted(set(CODE.findall(text))):
        identifier = IDENTIFIER.fullmatch(mentioned)
        if FOREIGN.match(mentioned):
            continue
        if PATH.fullmatch(mentioned):
            if not is_file_or_folder(mentioned, paths) and mentioned not in cmake:
                yield f"ARCHITECTURE.md: no file, folder or test is named `{mentioned}`"
        elif identifier and identifier[1] not in known:
            yield f"ARCHITECTURE.md: no source mentions `{mentioned}`"


def cell_text(path, cell_id):
    """The text of the notebook cell with this id, or None."""
    for cell in json.loads(path.read_text())["cells"]:
        if cell.get("id") == cell_id:
            return "".join(cell["source"]) + "\n"
    return None


def region(path, name):
    """The dedented text of a region without the region marks in it, or None.

    In a notebook, a region is the cell with that id.
    """
    if path.suffix == ".ipynb":
        return cell_text(path, name)
    lines, depth = [], 0
    for line in path.read_text().splitlines():
        mark = line.strip().lstrip("/# ").strip()
        if depth == 0:
            depth = 1 if mark == f"region: {name}" else 0
        elif mark.startswith("region: "):
            depth += 1
        elif mark != "endregion":
            lines.append(line)
        elif depth == 1:
            return textwrap.dedent("\n".join(lines) + "\n")
        else:
            depth -= 1
    return None


def check_snippets(root, names):
    for name in names:
        if name.suffix != ".md":
            continue
        text = (root / name).read_text()
        for block in FENCE.finditer(text):
            if block[1] not in ("cpp", "cmake"):
                continue
            where = f"{name}:{text.count(chr(10), 0, block.start()) + 1}"
            source = NAMES_REGION.search(text[:block.start()])
            if not source:
                yield f"{where}: the block does not name a region"
            elif not (root / source[1]).is_file():
                yield f"{where}: {source[1]} does not exist"
            elif region(root / source[1], source[2]) is None:
                yield f"{where}: {source[1]} has no region `{source[2]}`"
            elif region(root / source[1], source[2]) != block[2]:
                yield f"{where}: the block differs from {source[1]}#{source[2]}"


def links(root, name):
    """The files that a document links to, relative to the root."""
    for target in LINK.findall((root / name).read_text()):
        if "://" not in target and not target.startswith("mailto:"):
            yield (root / name.parent / target).resolve(), target


def check_links(root, names):
    for name in names:
        if name.suffix == ".md":
            for path, target in links(root, name):
                if not path.exists():
                    yield f"{name}: the link to {target} is broken"


def check_index(root, names):
    index = Path("docs/index.md")
    pages = {name for name in names
             if name.parts[0] == "docs" and name.suffix == ".md"}
    if not pages:
        return
    known = {path for path, _ in links(root, index)} if index in pages else set()
    for page in sorted(pages - {index}):
        if (root / page).resolve() not in known:
            yield f"{page}: docs/index.md does not link to it"


def check_license(root, names):
    for name in names:
        if name.suffix in LICENSED or name.name in ("CMakeLists.txt", "Makefile"):
            head = (root / name).read_text().splitlines()[:2]
            if not any(line.endswith("SPDX-License-Identifier: Apache-2.0")
                       for line in head):
                yield f"{name}: the SPDX line is missing from its first two lines"


CHECKS = [check_tests_listed, check_examples_run, check_maps, check_architecture,
          check_snippets, check_links, check_index, check_license]


def check(root):
    root = root.resolve()
    names = tree.files(root)
    return [finding for run_check in CHECKS for finding in run_check(root, names)]


if __name__ == "__main__":
    sys.exit(tree.report(
        "tree", check(Path(sys.argv[1]) if len(sys.argv) > 1 else tree.ROOT)))
