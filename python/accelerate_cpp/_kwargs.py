# SPDX-License-Identifier: Apache-2.0
"""Groups of settings that `Accelerator` takes, with the peer's names."""

import copy
import dataclasses
import datetime
import os
from typing import Any, Callable, Optional, Union

from . import errors


def _absent(inert: Any, hint: str = "leave it out"):
    """A field of the peer's that can only have the value that changes nothing."""
    return dataclasses.field(default_factory=lambda: copy.copy(inert), metadata={"inert": inert, "hint": hint})


def _met(default: Any):
    """A field of the peer's whose every value asks for no more than what is done anyway."""
    return dataclasses.field(default=default, metadata={"met": True})

# What a script ends with that saved because it was asked to; `accelerate launch` passes it on.
PREEMPTED_EXIT_CODE = 75


class KwargsHandler:
    """Base of what `Accelerator(kwargs_handlers=[…])` takes."""

    def to_kwargs(self) -> dict:
        """The fields that differ from their defaults."""
        plain = type(self)()
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != getattr(plain, field.name)
        }


@dataclasses.dataclass
class DataLoaderConfiguration:
    """How batches are dealt to processes; applies to every prepared loader."""

    split_batches: bool = False
    dispatch_batches: Optional[bool] = None
    even_batches: bool = True
    use_seedable_sampler: bool = False
    data_seed: Optional[int] = None
    non_blocking: bool = False
    use_stateful_dataloader: bool = _met(False)  # prepared loaders have `state_dict` anyway


@dataclasses.dataclass
class GradientAccumulationPlugin:
    """When micro-batches become an update, and what each weighs (`fixed`, `group` or `weighted`)."""

    num_steps: int = 1
    adjust_scheduler: bool = True
    sync_with_dataloader: bool = True
    sync_each_batch: bool = False
    weighting: str = "fixed"


@dataclasses.dataclass
class ProjectConfiguration:
    """Where a run keeps its checkpoints, and its logs (`logging_dir`, left out: `project_dir`)."""

    project_dir: Optional[Union[str, os.PathLike]] = None
    logging_dir: Optional[Union[str, os.PathLike]] = None
    automatic_checkpoint_naming: bool = False
    total_limit: Optional[int] = None
    iteration: int = 0
    save_on_each_node: bool = False

    def __post_init__(self):
        self.set_directories(self.project_dir)

    def set_directories(self, project_dir: Optional[Union[str, os.PathLike]] = None) -> None:
        """Sets `project_dir`, and `logging_dir` where it is not set yet."""
        self.project_dir = project_dir
        if self.logging_dir is None:
            self.logging_dir = project_dir


@dataclasses.dataclass
class DistributedDataParallelKwargs(KwargsHandler):
    """How gradients travel. Unused parameters are always found, and `.grad` always is a part of a bucket."""

    dim: int = _absent(0)
    broadcast_buffers: bool = True
    bucket_cap_mb: float = 25
    find_unused_parameters: bool = _met(False)
    check_reduction: bool = _absent(False)
    gradient_as_bucket_view: bool = _met(False)
    static_graph: bool = _met(False)  # a promise of the script's, that nothing needs here
    comm_hook: str = "no"
    comm_wrapper: str = _absent("no", "use `comm_hook`")
    comm_state_option: dict = _absent({})


@dataclasses.dataclass
class GradScalerKwargs(KwargsHandler):
    """How the gradient scaler of fp16 moves."""

    init_scale: float = 65536.0
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    growth_interval: int = 2000
    enabled: bool = True


@dataclasses.dataclass
class AutocastKwargs(KwargsHandler):
    """How autocast behaves."""

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
    """What `Accelerator.profile` records."""

    activities: Optional[list] = None
    schedule_option: Optional[dict] = None
    on_trace_ready: Optional[Callable] = None
    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    output_trace_dir: Optional[str] = None


def to_dict(settings) -> Optional[dict]:
    """The fields as the core reads them."""
    if settings is None:
        return None
    result = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        value = getattr(value, "value", value)  # of the peer's enumerations
        if "met" in field.metadata:
            continue
        if "inert" in field.metadata:
            _check_inert(settings, field, value)
            continue
        if isinstance(value, datetime.timedelta):
            value = value.total_seconds()
        elif isinstance(value, os.PathLike):
            value = os.fspath(value)
        result[field.name] = value
    return result


def _check_inert(settings, field, value) -> None:
    if value != field.metadata["inert"]:
        raise errors.UnsupportedError(
            f"`{type(settings).__name__}({field.name}={value!r})` has no counterpart in accelerate_cpp",
            field.metadata["hint"],
        )
