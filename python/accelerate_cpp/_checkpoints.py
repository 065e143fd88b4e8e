# SPDX-License-Identifier: Apache-2.0
"""Python objects in checkpoints: values as JSON, tensors as safetensors, never pickle."""

import io
import json
import random
import sys

import torch

from . import errors


def _split(state, path, values, tensors):
    """Returns a copy of `state` with each tensor replaced by its name in `tensors`."""
    if isinstance(state, torch.Tensor):
        tensors[path] = state
        return {"__tensor__": path}
    if isinstance(state, dict):
        for key in state:
            if not isinstance(key, str):
                raise errors.ArgumentError(
                    f"the key {key!r} in `state_dict()` has type `{type(key).__name__}`, not `str`",
                    "use strings as keys",
                )
        return {key: _split(value, f"{path}.{key}" if path else key, values, tensors) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return [_split(value, f"{path}.{i}", values, tensors) for i, value in enumerate(state)]
    return state


def _join(values, tensors):
    if isinstance(values, dict):
        if set(values) == {"__tensor__"}:
            return tensors[values["__tensor__"]]
        return {key: _join(value, tensors) for key, value in values.items()}
    if isinstance(values, list):
        return [_join(value, tensors) for value in values]
    return values


class Registered:
    """Saves and loads an object with `state_dict` and `load_state_dict` in two parts: values, then tensors."""

    def __init__(self, item):
        for method in ("state_dict", "load_state_dict"):
            if not callable(getattr(item, method, None)):
                raise errors.ArgumentError(
                    f"`{type(item).__name__}` has no `{method}`",
                    "register only objects with `state_dict` and `load_state_dict`",
                )
        self._item = item
        self._values = None
        self.has_tensors = bool(self.save_tensors())

    def save_values(self):
        return _split(self._item.state_dict(), "", {}, {})

    def save_tensors(self) -> dict:
        tensors = {}
        _split(self._item.state_dict(), "", {}, tensors)
        return tensors

    def load_values(self, values) -> None:
        self._values = values
        if not self.has_tensors:
            self._item.load_state_dict(values)

    def load_tensors(self, tensors: dict) -> None:
        copies = {name: tensor.clone() for name, tensor in tensors.items()}
        self._item.load_state_dict(_join(self._values, copies))


class _ByteTensorState:
    """Saves the state of a random generator as a byte tensor."""

    def save(self) -> torch.Tensor:
        return torch.frombuffer(bytearray(json.dumps(self.get()).encode()), dtype=torch.uint8)

    def load(self, state: torch.Tensor) -> None:
        self.set(json.loads(bytes(state.tolist())))


class RandomState:
    """A random generator that the script saves and loads with two functions."""

    def __init__(self, save, load):
        self.save, self.load = save, load


class PythonRandom(_ByteTensorState):
    """Python's global random generator, in the module `random`."""

    def get(self):
        return random.getstate()

    def set(self, state):
        version, internal, gauss = state
        random.setstate((version, tuple(internal), gauss))


class NumpyRandom(_ByteTensorState):
    """numpy's global random generator, if the program has imported numpy."""

    def get(self):
        numpy = sys.modules.get("numpy")
        if numpy is None:
            return None
        name, keys, position, has_gauss, gauss = numpy.random.get_state()
        return [name, keys.tolist(), position, has_gauss, gauss]

    def set(self, state):
        if state is not None and "numpy" in sys.modules:
            name, keys, position, has_gauss, gauss = state
            numpy = sys.modules["numpy"]
            numpy.random.set_state((name, numpy.array(keys, dtype=numpy.uint32), position, has_gauss, gauss))


def check_safe(safe_serialization: bool) -> None:
    if not safe_serialization:
        raise errors.UnsupportedError(
            "`safe_serialization=False` asks for pickle, but this library only writes safetensors and JSON",
            "remove the argument",
        )


def save(item, path: str, core) -> None:
    """Writes a dict of tensors as safetensors, anything else as JSON."""
    if isinstance(item, dict) and item and all(isinstance(value, torch.Tensor) for value in item.values()):
        core.save_tensors(item, path)
    else:
        core.save_value(item, path)


def load(path: str, core):
    """Reads a file that `save` wrote."""
    with io.open(path, "rb") as file:
        start = file.read(9)
    is_json = start[:1] in b'{["' or start[8:9] != b"{"
    return core.load_value(path) if is_json else core.load_tensors(path)
