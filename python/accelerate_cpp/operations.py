# SPDX-License-Identifier: Apache-2.0
"""Collectives on nests (tensors in lists, tuples, dicts and similar objects), and on Python objects."""

from typing import Any, Optional

import torch

from . import _nests, _objects
from ._nests import send_to_device
from .state import PartialState

__all__ = [
    "broadcast",
    "broadcast_object_list",
    "concatenate",
    "convert_to_fp32",
    "find_batch_size",
    "gather",
    "gather_object",
    "pad_across_processes",
    "reduce",
    "send_to_device",
    "slice_tensors",
]

_gathered = _objects.Exchange("gather_object")
_broadcast = _objects.Exchange("broadcast_object_list")


def _world(group):
    return PartialState().group if group is None else group


def _apply(nest, function):
    tensors = _nests.tensors_of(nest)
    return _nests.with_tensors(nest, function(tensors)) if tensors else nest


def gather(tensor: Any, *, group=None) -> Any:
    """Concatenates each tensor in a nest over all processes; the first dimensions may differ."""
    return _apply(tensor, _world(group).gather)


def gather_object(object: list, *, group=None) -> list:
    """Concatenates the lists from all processes; the elements can be any picklable objects."""
    return _gathered.unpack(_world(group).gather_object(_gathered.pack(object)))


def broadcast(tensor: Any, from_process: int = 0, *, group=None) -> Any:
    """Overwrites the tensors in a nest with the tensors from one process."""
    _world(group).broadcast(_nests.tensors_of(tensor), from_process)
    return tensor


def broadcast_object_list(object_list: list, from_process: int = 0, *, group=None) -> list:
    """Overwrites a list with the list from one process."""
    parts = _world(group).broadcast_object_list(_broadcast.pack(object_list), from_process)
    object_list[:] = _broadcast.unpack(parts, from_process)
    return object_list


def reduce(tensor: Any, reduction: str = "mean", scale: float = 1.0, *, group=None) -> Any:
    """Sums or averages each tensor in a nest over all processes."""
    return _apply(tensor, lambda tensors: _world(group).reduce(tensors, reduction, scale))


def pad_across_processes(tensor: Any, dim: int = 0, pad_index: int = 0, pad_first: bool = False, *, group=None) -> Any:
    """Pads each tensor to the largest size that any process has in `dim`."""
    return _apply(tensor, lambda tensors: _world(group).pad_across_processes(tensors, dim, pad_index, pad_first))


def find_batch_size(data: Any) -> Optional[int]:
    """The batch size: the number of rows of the first tensor that is not a scalar."""
    return next((tensor.shape[0] for tensor in _nests.tensors_of(data) if tensor.dim() > 0), None)


def slice_tensors(data: Any, tensor_slice: slice) -> Any:
    """Slices the rows of each tensor."""
    return _nests.map_tensors(lambda tensor: tensor[tensor_slice], data)


def concatenate(data: list, dim: int = 0) -> Any:
    """Concatenates nests that have the same structure, tensor by tensor."""
    columns = zip(*map(_nests.tensors_of, data))
    return _nests.with_tensors(data[0], [torch.cat(column, dim=dim) for column in columns])


def convert_to_fp32(tensor: Any) -> Any:
    """Converts 16-bit floats to fp32."""
    low_precision = (torch.float16, torch.bfloat16)
    return _nests.map_tensors(lambda item: item.float() if item.dtype in low_precision else item, tensor)
