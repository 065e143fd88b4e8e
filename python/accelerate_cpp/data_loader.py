# SPDX-License-Identifier: Apache-2.0
"""`torch.utils.data.DataLoader`s whose batches are dealt to processes by the core's arithmetic.

Which samples a process gets, in which order, how many rows of a batch are real, and how a run goes on
in the middle of an epoch is decided in C++. Reading, joining and worker processes are torch's.
"""

import itertools
from typing import Any, Optional

import torch
from torch.utils.data import BatchSampler, IterableDataset, RandomSampler, SequentialSampler

from . import _nests, errors
from ._native import core as _core

_KEPT = (
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


def _kept_options(loader) -> dict:
    """What a loader was made with, apart from its order."""
    options = {name: getattr(loader, name) for name in _KEPT if hasattr(loader, name)}
    if not options.get("pin_memory_device"):
        options.pop("pin_memory_device", None)
    return options


def _seed_of(sampler) -> Optional[int]:
    generator = getattr(sampler, "generator", None)
    return None if generator is None else generator.initial_seed()


class _Order:
    """How a loader goes through its dataset, as the core takes it."""

    def __init__(self, loader):
        self.sampler = self.batch_sampler = None
        self.settings = dict(
            batch_size=1,
            shuffle=False,
            drop_last=False,
            seed=None,
            sampler_size=None,
            batch_sampler_size=None,
        )
        batches = loader.batch_sampler
        if batches is None:  # batch_size=None: each sample is a batch already
            self._use(loader.sampler, loader)
        elif type(batches) is BatchSampler:
            self.settings.update(batch_size=batches.batch_size, drop_last=batches.drop_last)
            self._use(batches.sampler, loader)
        else:
            self.batch_sampler = batches
            self.settings["batch_sampler_size"] = len(batches)

    def _use(self, sampler, loader):
        if type(sampler) is RandomSampler and not sampler.replacement and len(sampler) == len(loader.dataset):
            self.settings.update(shuffle=True, seed=_seed_of(sampler))
        elif type(sampler) is not SequentialSampler:
            self.sampler = sampler
            self.settings["sampler_size"] = len(sampler)

    def tell(self, loader, group) -> None:
        """Writes a sampler's order of the coming epoch down; all processes take that of the first."""
        order = self.sampler if self.sampler is not None else self.batch_sampler
        if order is None:
            return
        if hasattr(order, "set_epoch"):
            order.set_epoch(loader.epoch())
        values = list(order)
        if group.size > 1:
            values = _from_first(values, group)
        if self.sampler is not None:
            loader.set_order([int(value) for value in values])
        else:
            loader.set_batch_order([[int(value) for value in batch] for batch in values])


def _from_first(values, group):
    import pickle

    (own,) = group.broadcast_object_list([pickle.dumps(values)], 0)
    return pickle.loads(own)


class _Batches:
    """A batch sampler for torch's loader: the indices of the loop that is about to begin."""

    def __init__(self, single: bool):
        self.cursor = None
        self._single = single

    def __iter__(self):
        cursor, self.cursor = self.cursor, None
        while cursor is not None and cursor.has_batch():
            indices = cursor.batch()
            yield indices[0] if self._single else indices
            cursor.advance()

    def __getstate__(self):  # worker processes that are not forked get a copy, and never use it
        return {"cursor": None, "_single": self._single}


class DataLoaderBase(torch.utils.data.DataLoader):
    """What prepared loaders have in common. Made by `Accelerator.prepare`."""

    _core: Any
    _device: Any
    _non_blocking: bool

    @property
    def total_batch_size(self) -> int:
        """Samples that all processes together use in a step."""
        return self._core.total_batch_size()

    @property
    def total_dataset_length(self) -> int:
        return len(self.dataset)

    @property
    def end_of_dataloader(self) -> bool:
        """Whether the batch that the loop is processing is the last."""
        return self._core.end_of_dataloader()

    @property
    def valid_rows(self) -> int:
        """How many rows of that batch are real; those after them repeat other samples."""
        return self._core.valid_rows()

    @property
    def epoch(self) -> int:
        return self._core.epoch()

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of the next loop."""
        self._core.set_epoch(epoch)
        if hasattr(self.dataset, "set_epoch"):
            self.dataset.set_epoch(epoch)

    def state_dict(self) -> dict:
        return self._core.state_dict()

    def load_state_dict(self, state: dict) -> None:
        self._core.load_state_dict(state)

    def __len__(self) -> int:
        return self._core.size()

    def _place(self, batch):
        if self._device is None:
            return batch
        return _nests.send_to_device(batch, self._device, self._non_blocking)


class DataLoaderShard(DataLoaderBase):
    """Each process reads its own batches."""

    def __init__(self, loader, order: _Order, core, group, device, non_blocking: bool):
        single = loader.batch_sampler is None
        batches = _Batches(single)
        how = dict(batch_size=None, sampler=batches) if single else dict(batch_sampler=batches)
        object.__setattr__(self, "_core", core)
        self._batches = batches
        self._order = order
        self._group = group
        self._device = device
        self._non_blocking = non_blocking
        super().__init__(loader.dataset, **how, **_kept_options(loader))
        # The order comes from the seed; this generator seeds worker processes.
        self._source = loader

    def _begin(self):
        self._order.tell(self._core, self._group)
        # Torch's loader asks for indices ahead of the loop, the Accelerator looks at the loop itself.
        self._batches.cursor = self._core.read_ahead()
        return self._core.begin()

    def __iter__(self):
        loop = self._begin()
        try:
            for batch in super().__iter__():
                yield self._place(batch)
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
    """What the core asks when it reads itself: for streams, and where one process reads for all."""

    def __init__(self, loader):
        self._loader = loader
        self._samples = iter(())

    def begin_epoch(self, epoch: int) -> None:
        dataset = self._loader.dataset
        if hasattr(dataset, "set_epoch"):
            dataset.set_epoch(epoch)
        if isinstance(dataset, IterableDataset):
            # Without batches, so that worker processes hand over single samples.
            options = {**_kept_options(self._loader), "collate_fn": _same, "pin_memory": False}
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
        """Everything about a batch but the data of its tensors."""
        import base64
        import pickle

        shell = _nests.map_tensors(lambda tensor: _Shape(tensor.dtype, tuple(tensor.shape)), batch)
        return base64.b64encode(pickle.dumps(shell)).decode()

    def build(self, form):
        import base64
        import pickle

        shell = pickle.loads(base64.b64decode(form))
        return _fill(shell)


class _Shape:
    """Stands for a tensor in a description."""

    def __init__(self, dtype, shape):
        self.dtype, self.shape = dtype, shape


def _same(value):
    return value


def _fill(shell):
    if isinstance(shell, _Shape):
        return torch.empty(shell.shape, dtype=shell.dtype)
    if isinstance(shell, tuple) and hasattr(shell, "_fields"):
        return type(shell)(*map(_fill, shell))
    if isinstance(shell, (list, tuple)):
        return type(shell)(map(_fill, shell))
    if isinstance(shell, dict) or hasattr(shell, "items"):
        return type(shell)({key: _fill(value) for key, value in shell.items()})
    return shell


class DataLoaderDispatcher(DataLoaderBase):
    """The core reads: a stream, or one process for all."""

    def __init__(self, loader, order: Optional[_Order], core, group, device, non_blocking: bool):
        object.__setattr__(self, "_core", core)
        self._order = order
        self._group = group
        self._device = device
        self._non_blocking = non_blocking
        self._source = loader
        options = _kept_options(loader)
        super().__init__(loader.dataset, batch_size=loader.batch_size, **options)

    def __iter__(self):
        if self._order is not None:
            self._order.tell(self._core, self._group)
        loop = self._core.begin()
        try:
            while loop.has_batch():
                yield self._place(loop.batch())
                loop.advance()
        finally:
            loop.close()

    def without_first(self, num_batches: int) -> "DataLoaderDispatcher":
        return DataLoaderDispatcher(
            self._source,
            self._order,
            self._core.without_first(num_batches),
            self._group,
            self._device,
            self._non_blocking,
        )


def prepare(loader, core, device) -> DataLoaderBase:
    """A loader that deals batches as the Accelerator `core` says."""
    group = core.state.group
    is_stream = isinstance(loader.dataset, IterableDataset)
    dispatches = is_stream or bool(core.dispatch_batches)
    if dispatches and not is_stream and loader.num_workers > 0 and core.state.num_processes > 1:
        raise errors.UnsupportedError(
            f"`dispatch_batches` with `num_workers={loader.num_workers}`: the main process reads a dataset by index "
            "itself",
            "pass `num_workers=0`, or leave `dispatch_batches` out",
        )
    if is_stream:
        settings = dict(
            batch_size=loader.batch_size or 1,
            shuffle=False,
            drop_last=bool(loader.drop_last),
            seed=None,
            sampler_size=None,
            batch_sampler_size=None,
        )
        order = None
    else:
        order = _Order(loader)
        settings = order.settings
    mirror = _core.Loader(
        dataset_size=None if is_stream else len(loader.dataset),
        reads=_Reader(loader) if dispatches else None,
        **settings,
    )
    core.prepare_data_loader(mirror)
    kind = DataLoaderDispatcher if dispatches else DataLoaderShard
    return kind(loader, order, mirror, group, device, core.non_blocking)


def skip_first_batches(dataloader, num_batches: int = 0):
    """A loader like this one whose first loop begins `num_batches` batches later."""
    if isinstance(dataloader, (DataLoaderShard, DataLoaderDispatcher)):
        return dataloader.without_first(num_batches)
    return _Skipping(dataloader, num_batches)


class _Skipping:
    """A plain loader without its first batches."""

    def __init__(self, loader, num_batches: int):
        self._loader = loader
        self._skip = num_batches

    def __iter__(self):
        return itertools.islice(iter(self._loader), self._skip, None)

    def __len__(self):
        return max(0, len(self._loader) - self._skip)

    def __getattr__(self, name):
        return getattr(self._loader, name)
