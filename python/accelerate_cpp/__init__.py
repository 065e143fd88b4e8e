# SPDX-License-Identifier: Apache-2.0
"""Runs PyTorch training loops in any number of processes, with a C++ core.

    from accelerate_cpp import Accelerator

    accelerator = Accelerator()
    loader, model, optimizer = accelerator.prepare(loader, model, optimizer)
    for batch in loader:
        accelerator.backward(model(**batch).loss)
        optimizer.step()
        optimizer.zero_grad()
"""

import importlib
from typing import TYPE_CHECKING

from ._version import __version__

if TYPE_CHECKING:
    from . import errors, logging, tracking, utils
    from ._kwargs import (
        AutocastKwargs,
        DataLoaderConfiguration,
        DistributedDataParallelKwargs,
        GradientAccumulationPlugin,
        GradScalerKwargs,
        InitProcessGroupKwargs,
        ProfileKwargs,
        ProjectConfiguration,
    )
    from .accelerator import Accelerator
    from .data_loader import skip_first_batches
    from .errors import Error
    from .launchers import WorkerError, debug_launcher, notebook_launcher
    from .local_sgd import LocalSGD
    from .progress import TrainingProgress, tqdm
    from .state import DistributedType, PartialState
    from .tracking import GeneralTracker, register_tracker_class
    from .utils import find_executable_batch_size, release_memory, set_seed

# The module that defines each name. Modules are imported on first use, so that `accelerate` starts without torch.
_NAMES_BY_MODULE = {
    "accelerator": ["Accelerator"],
    "_kwargs": [
        "AutocastKwargs",
        "DataLoaderConfiguration",
        "DistributedDataParallelKwargs",
        "GradScalerKwargs",
        "GradientAccumulationPlugin",
        "InitProcessGroupKwargs",
        "PREEMPTED_EXIT_CODE",
        "ProfileKwargs",
        "ProjectConfiguration",
    ],
    "cpp_magic": ["load_ipython_extension"],
    "data_loader": ["skip_first_batches"],
    "errors": ["Error"],
    "launchers": ["WorkerError", "debug_launcher", "notebook_launcher"],
    "local_sgd": ["LocalSGD"],
    "progress": ["TrainingProgress", "tqdm"],
    "state": ["DistributedType", "PartialState"],
    "tracking": ["GeneralTracker", "register_tracker_class"],
    "utils": ["find_executable_batch_size", "release_memory", "set_seed"],
}
_MODULE_OF = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}

__all__ = [
    "Accelerator",
    "AutocastKwargs",
    "DataLoaderConfiguration",
    "DistributedDataParallelKwargs",
    "DistributedType",
    "Error",
    "GeneralTracker",
    "GradScalerKwargs",
    "GradientAccumulationPlugin",
    "InitProcessGroupKwargs",
    "LocalSGD",
    "PREEMPTED_EXIT_CODE",
    "PartialState",
    "ProfileKwargs",
    "ProjectConfiguration",
    "TrainingProgress",
    "WorkerError",
    "__version__",
    "debug_launcher",
    "errors",
    "find_executable_batch_size",
    "logging",
    "notebook_launcher",
    "register_tracker_class",
    "release_memory",
    "set_seed",
    "skip_first_batches",
    "tqdm",
    "tracking",
    "utils",
]


def __getattr__(name: str):
    if name in ("errors", "logging", "tracking", "utils"):
        return importlib.import_module(f".{name}", __name__)
    if name in _MODULE_OF:
        value = getattr(importlib.import_module(f".{_MODULE_OF[name]}", __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
