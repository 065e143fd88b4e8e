# SPDX-License-Identifier: Apache-2.0
"""Reads the only run of `tensorboard` in a folder as TensorBoard does."""

import pathlib
import sys

import run_content
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.hparams import metadata

(path,) = pathlib.Path(sys.argv[1]).glob("*/*/")
events = event_accumulator.EventAccumulator(
    str(path), size_guidance={"scalars": 0, "tensors": 0, "images": 0}
)
events.Reload()
content = run_content.RunContent()
tags = events.Tags()
for tag in tags["scalars"]:
    for event in events.Scalars(tag):
        content.add(tag, event.step, event.value)
for tag in tags["tensors"]:
    plugin = events.SummaryMetadata(tag).plugin_data.plugin_name
    for event in events.Tensors(tag):
        strings = event.tensor_proto.string_val
        if plugin == "text":
            content.add(tag, event.step, strings[0].decode())
        elif plugin == "images":
            for png in strings[2:]:  # After the width and the height.
                content.add_picture(tag, png)
try:
    hparams = events.PluginTagToContent("hparams")
except KeyError:
    hparams = {}
session = hparams.get(metadata.SESSION_START_INFO_TAG)
if session:
    for name, value in metadata.parse_session_start_info_plugin_data(
        session
    ).hparams.items():
        content.config[name] = getattr(value, value.WhichOneof("kind"))
content.show()
