# SPDX-License-Identifier: Apache-2.0
"""The names of `accelerate.utils` in Hugging Face Accelerate."""

import functools
import gc
import random
import sys
from typing import Callable, Optional

import torch

from . import _checkpoints, errors
from ._kwargs import (
    AutocastKwargs,
    DataLoaderConfiguration,
    DistributedDataParallelKwargs,
    GradientAccumulationPlugin,
    GradScalerKwargs,
    InitProcessGroupKwargs,
    KwargsHandler,
    ProfileKwargs,
    ProjectConfiguration,
)
from ._native import core as _core
from .operations import (
    broadcast,
    broadcast_object_list,
    concatenate,
    convert_to_fp32,
    find_batch_size,
    gather,
    gather_object,
    pad_across_processes,
    reduce,
    send_to_device,
    slice_tensors,
)
from .state import DistributedType, PartialState

__all__ = [
    "AutocastKwargs",
    "DataLoaderConfiguration",
    "DistributedDataParallelKwargs",
    "DistributedType",
    "GradScalerKwargs",
    "GradientAccumulationPlugin",
    "InitProcessGroupKwargs",
    "KwargsHandler",
    "ProfileKwargs",
    "ProjectConfiguration",
    "broadcast",
    "broadcast_object_list",
    "clear_device_cache",
    "concatenate",
    "convert_to_fp32",
    "find_batch_size",
    "find_executable_batch_size",
    "gather",
    "gather_object",
    "load",
    "pad_across_processes",
    "reduce",
    "release_memory",
    "save",
    "send_to_device",
    "set_seed",
    "slice_tensors",
    "wait_for_everyone",
]


def set_seed(seed: int, device_specific: bool = False, deterministic: bool = False) -> None:
    """Seeds `random`, numpy (if it is loaded), and torch on all devices."""
    if device_specific:
        seed += PartialState().process_index
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)
    _core.set_seed(seed, False, deterministic, None)
    torch.manual_seed(seed)


def save(obj, f, save_on_each_node: bool = False, safe_serialization: bool = True) -> None:
    """Writes a dict of tensors as safetensors, or plain values as JSON, on the main process.

    With `save_on_each_node`, the local main process of every machine writes the file.
    """
    _checkpoints.check_safe(safe_serialization)
    # Without a PartialState, there is only this process.
    state = PartialState() if PartialState.is_initialized() else None
    if state is None or (state.is_local_main_process if save_on_each_node else state.is_main_process):
        _checkpoints.save(obj, str(f), _core)


def load(f, map_location=None):
    """Reads a file that `save` wrote; tensors are on the CPU, or on the device `map_location`."""
    value = _checkpoints.load(str(f), _core)
    return value if map_location is None else send_to_device(value, map_location)


def wait_for_everyone() -> None:
    PartialState().wait_for_everyone()


def clear_device_cache(garbage_collection: bool = False) -> None:
    """Frees the unused device memory that the caching allocator holds."""
    if garbage_collection:
        gc.collect()
    _core.clear_device_cache()


def release_memory(*objects) -> list:
    """Releases objects and their memory: `a, b = release_memory(a, b)`."""
    result = [None] * len(objects)
    del objects
    clear_device_cache(garbage_collection=True)
    return result


def _is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    texts = ("out of memory", "CUDNN_STATUS_NOT_SUPPORTED", "can't allocate memory")
    return isinstance(error, RuntimeError) and any(text in str(error) for text in texts)


def find_executable_batch_size(
    function: Optional[Callable] = None,
    starting_batch_size: int = 128,
    reduce_batch_size_fn: Optional[Callable] = None,
):
    """Calls `function(batch_size, …)` with decreasing batch sizes until it no longer runs out of memory."""
    if function is None:
        return functools.partial(
            find_executable_batch_size,
            starting_batch_size=starting_batch_size,
            reduce_batch_size_fn=reduce_batch_size_fn,
        )
    reduce_size = reduce_batch_size_fn or (lambda size=None: None)

    @functools.wraps(function)
    def search(*args, **kwargs):
        size = starting_batch_size
        while size > 0:
            clear_device_cache(garbage_collection=True)
            try:
                return function(size, *args, **kwargs)
            except Exception as error:
                if not _is_out_of_memory(error):
                    raise
            size = reduce_size() if reduce_batch_size_fn else size * 9 // 10
        raise errors.OutOfMemoryError("no batch size fits in memory", "use a smaller model or shorter samples")

    return search
