# SPDX-License-Identifier: Apache-2.0
"""`PartialState`: the rank of this process, its device and its process group."""

import contextlib
import enum
import functools
from typing import Any, Callable, Optional

import torch

from . import errors
from ._kwargs import InitProcessGroupKwargs, to_dict
from ._native import core as _core


class DistributedType(str, enum.Enum):
    """How the processes of a run work together."""

    NO = "NO"
    MULTI_CPU = "MULTI_CPU"
    MULTI_GPU = "MULTI_GPU"
    XLA = "XLA"


class PartialState:
    """One process of a run: its index, its device, and the process group of all processes.

    The first PartialState in a process reads the launcher's variables and joins the other processes; later ones share
    its state.
    """

    def __init__(
        self,
        cpu: Optional[bool] = None,
        *,
        kwargs: Optional[InitProcessGroupKwargs] = None,
        _state=None,
        **init_process_group_kwargs,
    ):
        if kwargs is not None and init_process_group_kwargs:
            raise errors.ArgumentError(
                f"PartialState got both `kwargs` and `{next(iter(init_process_group_kwargs))}`", "pass only one of them"
            )
        try:
            kwargs = kwargs or InitProcessGroupKwargs(**init_process_group_kwargs)
        except TypeError as error:
            raise errors.ArgumentError(
                f"PartialState: {str(error).split(') ')[-1]}", "pass the fields of InitProcessGroupKwargs"
            ) from None
        self._state = _state or _core.PartialState(cpu, to_dict(kwargs))

    def __repr__(self) -> str:
        return (
            f"PartialState(process {self.process_index} of {self.num_processes}, device {self.device}, "
            f"{self.distributed_type.value})"
        )

    # Properties -------------------------------------------------------------------------------

    @property
    def group(self):
        """The process group of all processes, with `barrier`, `gather`, `reduce`, `broadcast` for lists of tensors."""
        return self._state.group

    @property
    def device(self) -> torch.device:
        return self._state.device

    @property
    def distributed_type(self) -> DistributedType:
        return DistributedType(self._state.distributed_type)

    num_processes = property(lambda self: self._state.num_processes)
    process_index = property(lambda self: self._state.process_index)
    local_process_index = property(lambda self: self._state.local_process_index)
    local_num_processes = property(lambda self: self._state.local_num_processes)
    node_index = property(lambda self: self._state.node_index)
    num_nodes = property(lambda self: self._state.num_nodes)
    backend = property(lambda self: self._state.backend)
    launcher = property(lambda self: self._state.launcher)
    fork_launched = property(lambda self: self._state.fork_launched)
    debug = property(lambda self: self._state.debug)
    is_main_process = property(lambda self: self.process_index == 0)
    is_local_main_process = property(lambda self: self.local_process_index == 0)
    is_last_process = property(lambda self: self.process_index == self.num_processes - 1)
    use_distributed = property(lambda self: self.num_processes > 1)

    @staticmethod
    def is_initialized() -> bool:
        return _core.PartialState.is_initialized()

    @staticmethod
    def reset() -> None:
        """Discards the state of this process; the next `PartialState` joins the other processes again."""
        _core.PartialState.reset()

    _reset_state = reset  # the name in Hugging Face Accelerate

    # Coordination -----------------------------------------------------------------------------

    def wait_for_everyone(self) -> None:
        """Returns when every process has called this method."""
        self._state.wait_for_everyone()

    @contextlib.contextmanager
    def main_process_first(self):
        """The main process runs the block before the other processes."""
        order = self._state.main_process_first()
        try:
            yield
        finally:
            order.finish()

    @contextlib.contextmanager
    def local_main_process_first(self):
        """The main process on each machine runs the block before the other processes there."""
        order = self._state.local_main_process_first()
        try:
            yield
        finally:
            order.finish()

    @contextlib.contextmanager
    def split_between_processes(self, inputs: Any, apply_padding: bool = False):
        """Yields this process's share of a list, tuple, tensor or dataset, or of each value in a dict."""
        yield self._share(inputs, apply_padding)

    def _share(self, inputs, apply_padding):
        if isinstance(inputs, dict):
            lengths = {key: len(value) for key, value in inputs.items()}
            if len(set(lengths.values())) > 1:
                raise errors.ArgumentError(
                    f"split_between_processes: the values in the dict have different lengths: {lengths}",
                    "give all values in the dict the same length",
                )
            return {key: self._share(value, apply_padding) for key, value in inputs.items()}
        begin, end = _core.split_range(len(inputs), self.process_index, self.num_processes)
        missing = -(-len(inputs) // self.num_processes) - (end - begin) if apply_padding else 0
        if isinstance(inputs, (list, tuple, str)):
            part = inputs[begin:end]
            return part + inputs[-1:] * missing
        if isinstance(inputs, torch.Tensor):
            part = inputs[begin:end]
            return torch.cat([part] + [inputs[-1:]] * missing) if missing else part
        indices = list(range(begin, end)) + [len(inputs) - 1] * missing
        if hasattr(inputs, "select"):  # a dataset from Hugging Face `datasets`
            return inputs.select(indices)
        if hasattr(inputs, "__getitem__"):
            return torch.utils.data.Subset(inputs, indices)
        raise errors.ArgumentError(
            f"split_between_processes cannot split a value of type `{type(inputs).__name__}`",
            "pass a list, a tuple, a tensor, a dataset, or a dict of these",
        )

    def on_main_process(self, function: Optional[Callable] = None) -> Callable:
        if function is None:
            return self.on_main_process
        return _only(lambda: self.is_main_process, function)

    def on_local_main_process(self, function: Optional[Callable] = None) -> Callable:
        if function is None:
            return self.on_local_main_process
        return _only(lambda: self.is_local_main_process, function)

    def on_last_process(self, function: Callable) -> Callable:
        return _only(lambda: self.is_last_process, function)

    def on_process(self, function: Optional[Callable] = None, process_index: Optional[int] = None):
        if function is None:
            return functools.partial(self.on_process, process_index=process_index)
        return _only(lambda: self.process_index == _index(process_index, self.num_processes), function)

    def on_local_process(self, function: Optional[Callable] = None, local_process_index: Optional[int] = None):
        if function is None:
            return functools.partial(self.on_local_process, local_process_index=local_process_index)
        return _only(lambda: self.local_process_index == _index(local_process_index, self.local_num_processes), function)

    def print(self, *args, **kwargs) -> None:
        """Prints once per machine."""
        if self.is_local_main_process:
            print(*args, **kwargs)

    def destroy_process_group(self, group=None) -> None:
        """Leaves the process group; later collectives raise `StateError`."""
        if group is not None:
            raise errors.UnsupportedError("destroy_process_group does not support `group`", "leave it out")
        self._state.destroy_process_group()


def _index(index, count):
    if index is None or not 0 <= index < count:
        raise errors.ArgumentError(
            f"process index is {index}, but the number of processes is {count}", f"pass an index from 0 to {count - 1}"
        )
    return index


def _only(condition, function):
    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        return function(*args, **kwargs) if condition() else None

    return wrapped
