# SPDX-License-Identifier: Apache-2.0
"""Reads the only run of a project with Trackio's own functions.

TRACKIO_DIR is the folder of the projects; see NOTE [Readers] in run.py.
"""

import os
import pathlib
import sys

import run_content
from trackio.sqlite_storage import SQLiteStorage

project = sys.argv[2]
# `trackio show` does this first for all projects.
SQLiteStorage.migrate_all_projects()
(run,) = SQLiteStorage.get_run_records(project)
content = run_content.RunContent()
for row in SQLiteStorage.get_logs(project, run["name"], run_id=run["id"]):
    step = row.pop("step")
    row.pop("timestamp")
    for key, value in row.items():
        kind = value.get("_type") if isinstance(value, dict) else None
        if kind == "trackio.image":
            file = pathlib.Path(os.environ["TRACKIO_DIR"], "media", value["file_path"])
            content.add_picture(key, file.read_bytes())
        else:
            content.add(key, step, value)
content.config = {
    name: value
    for name, value in SQLiteStorage.get_run_config(project, run["name"]).items()
    if not name.startswith("_")
}
content.show()
