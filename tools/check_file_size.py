#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists files of more than 400 lines, which may be easier to read if they are
split.

    tools/check_file_size.py [root of the tree]

Never fails, because some long files, such as tables, should not be split.
"""

import sys
from pathlib import Path

import tree

LIMIT = 400
SOURCES = {".cpp", ".h", ".cu", ".cuh", ".py", ".sh", ".cmake"}


def long_files(root):
    for name in tree.files(root):
        if name.suffix in SOURCES:
            lines = (root / name).read_text().count("\n")
            if lines > LIMIT:
                yield lines, name


if __name__ == "__main__":
    for count, file in sorted(
            long_files(Path(sys.argv[1]) if len(sys.argv) > 1 else tree.ROOT),
            reverse=True):
        print(f"size: {file} has {count} lines; consider splitting it")
