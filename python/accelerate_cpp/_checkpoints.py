# SPDX-License-Identifier: Apache-2.0
"""Objects of Python's in checkpoints: values as JSON, tensors as safetensors, never pickle."""

import io
import json
import random
import sys

import torch

from . import errors


def _split(state, path, values, tensors):
    """Copies `state` into `values` with tensors replaced by their names in `tensors`."""
    if isinstance(state, torch.Tensor):
        tensors[path] = state
        return {"__tensor__": path}
    if isinstance(state, dict):
        for key in state:
            if not isinstance(key, str):
                raise errors.ArgumentError(
                    f"`state_dict()` has the key {key!r}, a `{type(key).__name__}`", "use strings as keys"
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
    """An object with `state_dict` and `load_state_dict`, in two halves: values, then tensors."""

    def __init__(self, item):
        for method in ("state_dict", "load_state_dict"):
            if not callable(getattr(item, method, None)):
                raise errors.ArgumentError(
                    f"`{type(item).__name__}` has no `{method}`", "register objects that have both methods"
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


class _Bytes:
    """A generator's state as bytes in a tensor."""

    def save(self) -> torch.Tensor:
        return torch.frombuffer(bytearray(json.dumps(self.get()).encode()), dtype=torch.uint8)

    def load(self, state: torch.Tensor) -> None:
        self.set(json.loads(bytes(state.tolist())))


class RandomState:
    """A generator that only two functions of the script's know."""

    def __init__(self, save, load):
        self.save, self.load = save, load


class PythonRandom(_Bytes):
    """The generator of the module `random`."""

    def get(self):
        return random.getstate()

    def set(self, state):
        version, internal, gauss = state
        random.setstate((version, tuple(internal), gauss))


class NumpyRandom(_Bytes):
    """The global generator of numpy, once the program has loaded numpy."""

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
            "`safe_serialization=False` asks for pickle, and files here are safetensors and JSON", "leave it out"
        )


def save(item, path: str, core) -> None:
    """Tensors by name as safetensors, anything else as JSON."""
    if isinstance(item, dict) and item and all(isinstance(value, torch.Tensor) for value in item.values()):
        core.save_tensors(item, path)
    else:
        core.save_value(item, path)


def load(path: str, core):
    """What `save` wrote."""
    with io.open(path, "rb") as file:
        start = file.read(9)
    is_json = start[:1] in b'{["' or start[8:9] != b"{"
    return core.load_value(path) if is_json else core.load_tensors(path)
