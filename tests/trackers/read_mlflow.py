# SPDX-License-Identifier: Apache-2.0
"""Reads the only run of an experiment from the server MLFLOW_TRACKING_URI."""

import pathlib
import sys
import tempfile

import mlflow
import run_content

client = mlflow.MlflowClient()
experiment = client.get_experiment_by_name(sys.argv[2])
(run,) = client.search_runs([experiment.experiment_id])
content = run_content.RunContent()
for key in run.data.metrics:
    for metric in client.get_metric_history(run.info.run_id, key):
        content.add(key, metric.step, metric.value)
# A tag has no step: the server keeps the last text.
for key, text in run.data.tags.items():
    if "." not in key:
        content.add(key, None, text)
with tempfile.TemporaryDirectory() as folder:
    for file in client.list_artifacts(run.info.run_id, "images"):
        path = client.download_artifacts(run.info.run_id, file.path, folder)
        key = pathlib.PurePath(file.path).name.split("+")[0].replace("~", "/")
        content.add_picture(key, pathlib.Path(path).read_bytes())
content.config = run.data.params
content.show()
