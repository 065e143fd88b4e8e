#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a table of training steps of this library and of Hugging Face
Accelerate.

    benchmarks/compare_gpu.py <file>

`benchmarks/compare_gpu.sh` writes the file, which contains JSON lines. The
lines of this library have the mode `ours`.
"""

import json
import sys
from pathlib import Path

OURS = "ours"


def read(path):
    """Returns {work: {mode: line}}, in the order of the file."""
    works = {}
    for text in path.read_text().splitlines():
        line = json.loads(text)
        works.setdefault(line["work"], {})[line["mode"]] = line
    return works


def cell(ours, hf):
    """Returns the milliseconds of Hugging Face Accelerate, the speed-up of
    this library, the memory, and the warm-up time if it is long."""
    if hf is None:
        return "–"
    text = f"{hf['ms']:.1f} ({hf['ms'] / ours['ms']:.1f} ×)"
    if "peak_gb" in hf:
        text += f", {hf['peak_gb']:.1f} GB"
    if hf.get("warm_up_s", 0) >= 10:
        text += f", warm-up {hf['warm_up_s']:.0f} s"
    return text


def table(works):
    modes = []
    for lines in works.values():
        modes += [mode for mode in lines if mode not in [*modes, OURS]]
    rows = [["work", "ours, ms", "peak", "loss", *modes]]
    for work, lines in works.items():
        ours = lines.get(OURS)
        if ours is None:
            continue
        losses = " / ".join(
            f"{line['loss']:.3f}" for line in lines.values() if "loss" in line)
        rows.append(
            [work, f"{ours['ms']:.2f}", f"{ours['peak_gb']:.1f} GB", losses,
             *(cell(ours, lines.get(mode)) for mode in modes)])
    return rows


def main():
    rows = table(read(Path(sys.argv[1])))
    rows.insert(1, ["---"] * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
