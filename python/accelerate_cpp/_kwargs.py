# SPDX-License-Identifier: Apache-2.0
"""Option classes for `Accelerator`, with the names that Hugging Face Accelerate uses."""

import copy
import dataclasses
import datetime
import os
from typing import Any, Callable, Optional, Union

from . import errors


def _unsupported(default: Any, hint: str = "leave it out"):
    """A field that Hugging Face Accelerate has but this library does not support: it accepts only the default."""
    return dataclasses.field(
        default_factory=lambda: copy.copy(default), metadata={"only_value": default, "hint": hint}
    )


def _no_effect(default: Any):
    """A field from Hugging Face Accelerate that changes nothing: this library always does what the field requests."""
    return dataclasses.field(default=default, metadata={"no_effect": True})


# The exit code of a script that saved a checkpoint because of a preemption; `accelerate launch` returns it too.
PREEMPTED_EXIT_CODE = 75


class KwargsHandler:
    """Base class of the objects in `Accelerator(kwargs_handlers=[…])`."""

    def to_kwargs(self) -> dict:
        """The fields that differ from their defaults."""
        defaults = type(self)()
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != getattr(defaults, field.name)
        }


@dataclasses.dataclass
class DataLoaderConfiguration:
    """How batches are distributed to the processes; applies to every prepared loader."""

    split_batches: bool = False
    dispatch_batches: Optional[bool] = None
    even_batches: bool = True
    use_seedable_sampler: bool = False
    data_seed: Optional[int] = None
    non_blocking: bool = False
    use_stateful_dataloader: bool = _no_effect(False)  # prepared loaders always have `state_dict`


@dataclasses.dataclass
class GradientAccumulationPlugin:
    """How many micro-batches make up an update, and how each is weighted (`fixed`, `group` or `weighted`)."""

    num_steps: int = 1
    adjust_scheduler: bool = True
    sync_with_dataloader: bool = True
    sync_each_batch: bool = False
    weighting: str = "fixed"


@dataclasses.dataclass
class ProjectConfiguration:
    """Where a run saves its checkpoints and its logs (`logging_dir`, default: `project_dir`)."""

    project_dir: Optional[Union[str, os.PathLike]] = None
    logging_dir: Optional[Union[str, os.PathLike]] = None
    automatic_checkpoint_naming: bool = False
    total_limit: Optional[int] = None
    iteration: int = 0
    save_on_each_node: bool = False

    def __post_init__(self):
        self.set_directories(self.project_dir)

    def set_directories(self, project_dir: Optional[Union[str, os.PathLike]] = None) -> None:
        """Sets `project_dir`, and `logging_dir` if it is not set yet."""
        self.project_dir = project_dir
        if self.logging_dir is None:
            self.logging_dir = project_dir


@dataclasses.dataclass
class DistributedDataParallelKwargs(KwargsHandler):
    """How gradients are reduced. Unused parameters are always detected, and `.grad` is always a view of a bucket."""

    dim: int = _unsupported(0)
    broadcast_buffers: bool = True
    bucket_cap_mb: float = 25
    find_unused_parameters: bool = _no_effect(False)
    check_reduction: bool = _unsupported(False)
    gradient_as_bucket_view: bool = _no_effect(False)
    static_graph: bool = _no_effect(False)  # this library also handles graphs that change
    comm_hook: str = "no"
    comm_wrapper: str = _unsupported("no", "use `comm_hook`")
    comm_state_option: dict = _unsupported({})


@dataclasses.dataclass
class GradScalerKwargs(KwargsHandler):
    """How the fp16 gradient scaler adjusts its scale."""

    init_scale: float = 65536.0
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    growth_interval: int = 2000
    enabled: bool = True


@dataclasses.dataclass
class AutocastKwargs(KwargsHandler):
    """Options for autocast."""

    enabled: bool = True
    cache_enabled: Optional[bool] = None


@dataclasses.dataclass
class InitProcessGroupKwargs(KwargsHandler):
    """How processes find each other, and how long they wait."""

    backend: Optional[str] = None
    init_method: Optional[str] = None
    timeout: Optional[datetime.timedelta] = None
    warn_after: Optional[datetime.timedelta] = None


@dataclasses.dataclass
class ProfileKwargs(KwargsHandler):
    """Options for `Accelerator.profile`."""

    activities: Optional[list] = None
    schedule_option: Optional[dict] = None
    on_trace_ready: Optional[Callable] = None
    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    output_trace_dir: Optional[str] = None


def to_dict(options) -> Optional[dict]:
    """Converts an option class to the dict that the core reads."""
    if options is None:
        return None
    result = {}
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        value = getattr(value, "value", value)  # Hugging Face Accelerate uses enumerations
        if "no_effect" in field.metadata:
            continue
        if "only_value" in field.metadata:
            _check_unsupported(options, field, value)
            continue
        if isinstance(value, datetime.timedelta):
            value = value.total_seconds()
        elif isinstance(value, os.PathLike):
            value = os.fspath(value)
        result[field.name] = value
    return result


def _check_unsupported(options, field, value) -> None:
    if value != field.metadata["only_value"]:
        raise errors.UnsupportedError(
            f"accelerate_cpp does not support `{type(options).__name__}({field.name}={value!r})`",
            field.metadata["hint"],
        )
