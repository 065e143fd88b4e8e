# SPDX-License-Identifier: Apache-2.0
"""Training loops of PyTorch on any number of processes, on a core of C++.

    from accelerate_cpp import Accelerator

    accelerator = Accelerator()
    loader, model, optimizer = accelerator.prepare(loader, model, optimizer)
    for batch in loader:
        accelerator.backward(model(**batch).loss)
        optimizer.step()
        optimizer.zero_grad()
"""

from . import errors, logging, utils
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
from ._version import __version__
from .accelerator import Accelerator
from .data_loader import skip_first_batches
from .errors import Error
from .launchers import WorkerError, debug_launcher, notebook_launcher
from .local_sgd import LocalSGD
from .progress import TrainingProgress, tqdm
from .state import DistributedType, PartialState
from .utils import find_executable_batch_size, release_memory, set_seed

__all__ = [
    "Accelerator",
    "AutocastKwargs",
    "DataLoaderConfiguration",
    "DistributedDataParallelKwargs",
    "DistributedType",
    "Error",
    "GradScalerKwargs",
    "GradientAccumulationPlugin",
    "InitProcessGroupKwargs",
    "LocalSGD",
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
    "release_memory",
    "set_seed",
    "skip_first_batches",
    "tqdm",
    "utils",
]


def load_ipython_extension(shell):
    """`%load_ext accelerate_cpp`: cells of C++, see `accelerate_cpp.magic`."""
    try:
        from . import magic
    except ImportError as error:
        raise errors.UnsupportedError(f"this package has no cells of C++: {error}") from error
    magic.load_ipython_extension(shell)
