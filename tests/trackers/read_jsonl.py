# SPDX-License-Identifier: Apache-2.0
"""Reads the only run of `jsonl` in a folder with Python's own module."""

import json
import pathlib
import sys

import run_content

content = run_content.RunContent()
(path,) = pathlib.Path(sys.argv[1]).glob("*/*/metrics.jsonl")
for line in path.read_text(encoding="utf-8").splitlines():
    entry = json.loads(line)
    kind = entry.pop("_type", None)
    if kind == "config":
        content.config = entry["config"]
    elif kind == "images":
        for file in entry["files"]:
            content.add_picture(entry["key"], (path.parent / file).read_bytes())
    elif kind is None:
        step = entry.pop("_step")
        entry.pop("_time")
        for key, value in entry.items():
            content.add(key, step, value)
content.show()
