# SPDX-License-Identifier: Apache-2.0
"""Reads the only run of `csv` in a folder with Python's own module."""

import csv
import json
import pathlib
import sys

import run_content

content = run_content.RunContent()
(path,) = pathlib.Path(sys.argv[1]).glob("*/*/metrics.csv")
with path.open(newline="", encoding="utf-8") as file:
    for row in csv.DictReader(file):
        step = int(row.pop("_step"))
        row.pop("_time")
        for key, text in row.items():
            if text:
                content.add_cell(key, step, text)
config = path.parent / "config.json"
if config.exists():
    content.config = json.loads(config.read_text(encoding="utf-8"))
content.show()
