# SPDX-License-Identifier: Apache-2.0
"""Reads the files of `dvclive` in a folder with DVC."""

import json
import os
import pathlib
import subprocess
import sys

import dvc.api
import run_content


def run_dvc(*arguments):
    """Returns what a command prints."""
    command = [sys.executable, "-m", "dvc", *arguments]
    environment = {**os.environ, "DVC_NO_ANALYTICS": "1", "DVC_TEST": "1"}
    return subprocess.run(
        command,
        cwd=sys.argv[1],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    ).stdout


def member(values, key):
    for part in key.split("/"):
        values = values[part]
    return values


folder = pathlib.Path(sys.argv[1])
if not (folder / ".dvc").exists():
    run_dvc("init", "--no-scm", "--quiet")
content = run_content.RunContent()
last = dvc.api.metrics_show(repo=sys.argv[1])
content.config = dvc.api.params_show(repo=sys.argv[1])
plots = json.loads(run_dvc("plots", "show", "--json", "--split", "-o", "plots"))
assert not plots.get("errors"), plots["errors"]
for name, plot in plots["data"].items():
    path = pathlib.PurePath(name.split("::")[-1])
    if path.suffix == ".png":
        parts = path.relative_to("dvclive/plots/images").parts
        content.add_picture("/".join(parts[:-1]), (folder / path).read_bytes())
        continue
    key = str(path.relative_to("dvclive/plots/metrics").with_suffix(""))
    for point in plot[0]["anchor_definitions"]["<DVC_METRIC_DATA>"]:
        content.add_cell(key, int(point["step"]), point[path.stem])
    member(last, key)  # Throws if it is missing.
content.show()
