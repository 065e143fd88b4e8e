# SPDX-License-Identifier: Apache-2.0
"""What a reader found in a run, as one JSON object on stdout:

- `scalars`, `texts`: for each key, the pairs of step and value, in order
- `pictures`: key, width, height and red of the first pixel of each image
- `config`: the configuration, with `/` between the names of nested members
"""

import dataclasses
import io
import json

from PIL import Image


def flatten(config, prefix=""):
    flat = {}
    for name, value in config.items():
        if isinstance(value, dict):
            flat.update(flatten(value, f"{prefix}{name}/"))
        else:
            flat[prefix + name] = value
    return flat


@dataclasses.dataclass
class RunContent:
    scalars: dict = dataclasses.field(default_factory=dict)
    texts: dict = dataclasses.field(default_factory=dict)
    pictures: list = dataclasses.field(default_factory=list)
    config: dict = dataclasses.field(default_factory=dict)

    def add(self, key, step, value):
        """Adds a number or a text; ignores everything else."""
        if value in ("NaN", "Infinity", "-Infinity"):
            value = float(value)  # JSON has no such numbers.
        if isinstance(value, str):
            self.texts.setdefault(key, []).append([step, value])
        elif isinstance(value, (int, float)):
            self.scalars.setdefault(key, []).append([step, value])

    def add_cell(self, key, step, text):
        """Adds the number or the text in a cell of a table."""
        try:
            self.add(key, step, float(text))
        except ValueError:
            self.add(key, step, text)

    def add_picture(self, key, png):
        image = Image.open(io.BytesIO(png)).convert("RGB")
        self.pictures.append([key, *image.size, image.getpixel((0, 0))[0]])

    def show(self):
        self.config = flatten(self.config)
        print(json.dumps(dataclasses.asdict(self), default=str))
