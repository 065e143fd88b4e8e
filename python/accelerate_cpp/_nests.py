# SPDX-License-Identifier: Apache-2.0
"""Nests: lists, tuples, dicts and similar objects that contain tensors."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch


def map_tensors(function: Callable, nest: Any) -> Any:
    """Returns the nest with `function` applied to each tensor; all other values stay the same."""
    if isinstance(nest, torch.Tensor):
        return function(nest)
    if isinstance(nest, tuple) and hasattr(nest, "_fields"):
        return type(nest)(*(map_tensors(function, item) for item in nest))
    if isinstance(nest, (list, tuple)):
        return type(nest)(map_tensors(function, item) for item in nest)
    if isinstance(nest, Mapping):
        return _map_items(function, nest)
    if dataclasses.is_dataclass(nest) and not isinstance(nest, type):
        return dataclasses.replace(
            nest,
            **{
                field.name: map_tensors(function, getattr(nest, field.name))
                for field in dataclasses.fields(nest)
                if field.init
            },
        )
    return nest


def _map_items(function, nest):
    items = {key: map_tensors(function, value) for key, value in nest.items()}
    try:
        return type(nest)(items)
    except TypeError:  # a mapping with a different constructor
        return items


def tensors_of(nest: Any) -> list:
    """Returns the tensors in the order in which `map_tensors` visits them."""
    found = []
    map_tensors(lambda tensor: found.append(tensor) or tensor, nest)
    return found


def with_tensors(nest: Any, tensors: list) -> Any:
    """Returns the nest with its tensors replaced by `tensors`."""
    remaining = iter(tensors)
    return map_tensors(lambda _: next(remaining), nest)


def send_to_device(tensor: Any, device, non_blocking: bool = False, skip_keys=None) -> Any:
    """Returns the nest with its tensors, and objects that have a `to` method, moved to `device`.

    Dict entries whose keys are in `skip_keys` are not moved.
    """
    if skip_keys and isinstance(tensor, Mapping):
        skipped = [skip_keys] if isinstance(skip_keys, str) else skip_keys
        moved = {
            key: value if key in skipped else send_to_device(value, device, non_blocking, skipped)
            for key, value in tensor.items()
        }
        return type(tensor)(moved)
    if not isinstance(tensor, (torch.Tensor, torch.nn.Module)) and hasattr(tensor, "to") and isinstance(tensor, Mapping):
        return tensor.to(device)  # such as the output of a tokenizer
    return map_tensors(lambda item: item.to(device, non_blocking=non_blocking), tensor)
