# SPDX-License-Identifier: Apache-2.0
"""`torch.utils.data.DataLoader`s whose batches the core distributes to the processes.

C++ decides which samples a process gets, in which order, how many rows of a batch are real, and how a run resumes in
the middle of an epoch. Torch reads and collates the samples, and provides the worker processes.
"""

import itertools
from typing import Any, Optional

import torch
from torch.utils.data import BatchSampler, IterableDataset, RandomSampler, SequentialSampler

from . import _nests, _objects, errors
from ._native import core as _core

_COPIED_OPTIONS = (
    "num_workers",
    "collate_fn",
    "pin_memory",
    "timeout",
    "worker_init_fn",
    "multiprocessing_context",
    "generator",
    "prefetch_factor",
    "persistent_workers",
    "pin_memory_device",
    "in_order",
)

_sampler_order = _objects.Exchange("the order of a sampler")


def _copied_options(loader) -> dict:
    """The options that a loader was created with, except those for the sampling order."""
    options = {name: getattr(loader, name) for name in _COPIED_OPTIONS if hasattr(loader, name)}
    if not options.get("pin_memory_device"):
        options.pop("pin_memory_device", None)
    return options


def _seed_of(sampler) -> Optional[int]:
    generator = getattr(sampler, "generator", None)
    return None if generator is None else generator.initial_seed()


class _SamplingOrder:
    """The order in which a loader reads its dataset, in the form that the core expects."""

    def __init__(self, loader):
        self.sampler = self.batch_sampler = None
        self.options = dict(
            batch_size=1,
            shuffle=False,
            drop_last=False,
            seed=None,
            sampler_size=None,
            batch_sampler_size=None,
        )
        batches = loader.batch_sampler
        if batches is None:  # batch_size=None: each sample is already a batch
            self._use(loader.sampler, loader)
        elif type(batches) is BatchSampler:
            self.options.update(batch_size=batches.batch_size, drop_last=batches.drop_last)
            self._use(batches.sampler, loader)
        else:
            self.batch_sampler = batches
            self.options["batch_sampler_size"] = len(batches)

    def _use(self, sampler, loader):
        if type(sampler) is RandomSampler and not sampler.replacement and len(sampler) == len(loader.dataset):
            self.options.update(shuffle=True, seed=_seed_of(sampler))
        elif type(sampler) is not SequentialSampler:
            self.sampler = sampler
            self.options["sampler_size"] = len(sampler)

    def set_order(self, loader, group) -> None:
        """Passes a sampler's order for the next epoch to the core; all processes use the order from process 0."""
        order = self.sampler if self.sampler is not None else self.batch_sampler
        if order is None:
            return
        if hasattr(order, "set_epoch"):
            order.set_epoch(loader.epoch())
        values = list(order)
        if group.size > 1:
            values = _broadcast_from_first(values, group)
        if self.sampler is not None:
            loader.set_order([int(value) for value in values])
        else:
            loader.set_batch_order([[int(value) for value in batch] for batch in values])


def _broadcast_from_first(values, group):
    parts = group.broadcast_object_list(_sampler_order.pack([values]), 0)
    return _sampler_order.unpack(parts, 0)[0]


class _IndexBatches:
    """A batch sampler for torch's loader: yields the indices for the next loop."""

    def __init__(self, single: bool):
        self.cursor = None
        self._single = single

    def __iter__(self):
        cursor, self.cursor = self.cursor, None
        while cursor is not None and cursor.has_batch():
            indices = cursor.batch()
            yield indices[0] if self._single else indices
            cursor.advance()

    def __getstate__(self):  # worker processes that are not forked get a copy but never use it
        return {"cursor": None, "_single": self._single}


class DataLoaderBase(torch.utils.data.DataLoader):
    """Base class of prepared loaders. Created by `Accelerator.prepare`."""

    _core: Any
    _device: Any
    _non_blocking: bool

    @property
    def total_batch_size(self) -> int:
        """The number of samples that all processes together use in a step."""
        return self._core.total_batch_size()

    @property
    def total_dataset_length(self) -> int:
        return len(self.dataset)

    @property
    def end_of_dataloader(self) -> bool:
        """Whether the current batch is the last one."""
        return self._core.end_of_dataloader()

    @property
    def valid_rows(self) -> int:
        """How many rows of the current batch are real; the rows after them are padding."""
        return self._core.valid_rows()

    @property
    def epoch(self) -> int:
        return self._core.epoch()

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch that determines the order of the next loop."""
        self._core.set_epoch(epoch)
        if hasattr(self.dataset, "set_epoch"):
            self.dataset.set_epoch(epoch)

    def state_dict(self) -> dict:
        return self._core.state_dict()

    def load_state_dict(self, state: dict) -> None:
        self._core.load_state_dict(state)

    def __len__(self) -> int:
        return self._core.size()

    def _to_device(self, batch):
        if self._device is None:
            return batch
        return _nests.send_to_device(batch, self._device, self._non_blocking)


class DataLoaderShard(DataLoaderBase):
    """Each process reads its own batches."""

    def __init__(self, loader, order: _SamplingOrder, core, group, device, non_blocking: bool):
        single = loader.batch_sampler is None
        batches = _IndexBatches(single)
        sampling = dict(batch_size=None, sampler=batches) if single else dict(batch_sampler=batches)
        object.__setattr__(self, "_core", core)
        self._batches = batches
        self._order = order
        self._group = group
        self._device = device
        self._non_blocking = non_blocking
        # The core's seed determines the order; the copied `generator` only seeds worker processes.
        super().__init__(loader.dataset, **sampling, **_copied_options(loader))
        self._source = loader

    def _begin(self):
        self._order.set_order(self._core, self._group)
        # Torch's loader prefetches indices with its own cursor; the Accelerator tracks the position of the loop.
        self._batches.cursor = self._core.read_ahead()
        return self._core.begin()

    def __iter__(self):
        loop = self._begin()
        try:
            for batch in super().__iter__():
                yield self._to_device(batch)
                loop.advance()
        finally:
            loop.close()

    def without_first(self, num_batches: int) -> "DataLoaderShard":
        return DataLoaderShard(
            self._source,
            self._order,
            self._core.without_first(num_batches),
            self._group,
            self._device,
            self._non_blocking,
        )


class _Reader:
    """Reads samples for the core: for streams, and when one process reads for all processes."""

    def __init__(self, loader):
        self._loader = loader
        self._samples = iter(())

    def begin_epoch(self, epoch: int) -> None:
        dataset = self._loader.dataset
        if hasattr(dataset, "set_epoch"):
            dataset.set_epoch(epoch)
        if isinstance(dataset, IterableDataset):
            # Without batching, so that worker processes return single samples.
            options = {**_copied_options(self._loader), "collate_fn": _identity, "pin_memory": False}
            self._samples = iter(torch.utils.data.DataLoader(dataset, batch_size=None, **options))

    def next(self) -> tuple:
        return tuple(itertools.islice(self._samples, 1))

    def collate(self, samples: list):
        return self._finish(samples[0] if self._loader.batch_size is None else self._collate(samples))

    def load(self, indices: list):
        dataset = self._loader.dataset
        if hasattr(dataset, "__getitems__"):
            samples = dataset.__getitems__(indices)
        else:
            samples = [dataset[index] for index in indices]
        return self.collate(samples)

    def _collate(self, samples):
        return self._loader.collate_fn(samples)

    def _finish(self, batch):
        return batch

    tensors = staticmethod(_nests.tensors_of)
    with_tensors = staticmethod(_nests.with_tensors)

    def describe(self, batch):
        """Serializes a batch without the data of its tensors."""
        skeleton = _nests.map_tensors(lambda tensor: _TensorShape(tensor.dtype, tuple(tensor.shape)), batch)
        return _objects.seal_text("batch", skeleton)

    def build(self, description):
        return _fill(_objects.open_text("batch", description))


class _TensorShape:
    """A placeholder for a tensor in a serialized batch: its type and its shape."""

    def __init__(self, dtype, shape):
        self.dtype, self.shape = dtype, shape


def _identity(value):
    return value


def _fill(skeleton):
    if isinstance(skeleton, _TensorShape):
        return torch.empty(skeleton.shape, dtype=skeleton.dtype)
    if isinstance(skeleton, tuple) and hasattr(skeleton, "_fields"):
        return type(skeleton)(*map(_fill, skeleton))
    if isinstance(skeleton, (list, tuple)):
        return type(skeleton)(map(_fill, skeleton))
    if isinstance(skeleton, dict) or hasattr(skeleton, "items"):
        return type(skeleton)({key: _fill(value) for key, value in skeleton.items()})
    return skeleton


class _ReadByCore(DataLoaderBase):
    """A loader whose data the core reads."""

    def __init__(self, loader, order: Optional[_SamplingOrder], core, group, device, non_blocking: bool):
        object.__setattr__(self, "_core", core)
        self._order = order
        self._group = group
        self._device = device
        self._non_blocking = non_blocking
        self._source = loader
        options = _copied_options(loader)
        super().__init__(loader.dataset, batch_size=loader.batch_size, **options)

    def __iter__(self):
        if self._order is not None:
            self._order.set_order(self._core, self._group)
        loop = self._core.begin()
        try:
            while loop.has_batch():
                yield self._to_device(loop.batch())
                loop.advance()
        finally:
            loop.close()

    def without_first(self, num_batches: int) -> "_ReadByCore":
        return type(self)(
            self._source,
            self._order,
            self._core.without_first(num_batches),
            self._group,
            self._device,
            self._non_blocking,
        )


class DataLoaderDispatcher(_ReadByCore):
    """The first process reads the data and sends each process its batches."""


class IterableDataLoaderShard(_ReadByCore):
    """Each process reads the whole stream and keeps its own batches."""


def prepare(loader, core, device) -> DataLoaderBase:
    """Returns a loader whose batches the core distributes to the processes."""
    group = core.state.group
    is_stream = isinstance(loader.dataset, IterableDataset)
    dispatches = is_stream if core.dispatch_batches is None else core.dispatch_batches
    if dispatches and not is_stream and loader.num_workers > 0 and core.state.num_processes > 1:
        raise errors.UnsupportedError(
            f"`dispatch_batches` does not support `num_workers={loader.num_workers}` for a map-style dataset",
            "pass `num_workers=0`, or leave `dispatch_batches` out",
        )
    if is_stream:
        options = dict(
            batch_size=loader.batch_size or 1,
            shuffle=False,
            drop_last=bool(loader.drop_last),
            seed=None,
            sampler_size=None,
            batch_sampler_size=None,
        )
        order = None
    else:
        order = _SamplingOrder(loader)
        options = order.options
    mirror = _core.Loader(
        dataset_size=None if is_stream else len(loader.dataset),
        reader=_Reader(loader) if dispatches or is_stream else None,
        **options,
    )
    core.prepare_data_loader(mirror)
    if dispatches:
        loader_class = DataLoaderDispatcher
    else:
        loader_class = IterableDataLoaderShard if is_stream else DataLoaderShard
    return loader_class(loader, order, mirror, group, device, core.non_blocking)


def skip_first_batches(dataloader, num_batches: int = 0):
    """Returns a loader like `dataloader` that skips the first `num_batches` batches.

    If `dataloader` is prepared, only the first loop skips batches.
    """
    if isinstance(dataloader, DataLoaderBase):
        return dataloader.without_first(num_batches)
    return _SkippingLoader(dataloader, num_batches)


class _SkippingLoader:
    """Skips the first `num_batches` batches of a loader that was not prepared."""

    def __init__(self, loader, num_batches: int):
        self._loader = loader
        self._skip = num_batches

    def __iter__(self):
        return itertools.islice(iter(self._loader), self._skip, None)

    def __len__(self):
        return max(0, len(self._loader) - self._skip)

    def __getattr__(self, name):
        return getattr(self._loader, name)
