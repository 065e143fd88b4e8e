# SPDX-License-Identifier: Apache-2.0
"""Progress of a training run: a progress bar, and in a notebook also the loss curve."""

import json
import os
import sys
import time
from typing import Any, Iterable, Optional

import torch

from ._native import core as _core
from .picture import svg

# Set by `notebook_launcher` for its workers: the folder where rank 0 writes its progress for the cell.
FOLDER_VARIABLE = "ACCELERATE_NOTEBOOK_FOLDER"
_INTERVAL = 0.5


def in_notebook() -> bool:
    """Whether this process is a notebook kernel."""
    shell = sys.modules.get("IPython")
    shell = shell.get_ipython() if shell is not None else None
    return shell is not None and hasattr(shell, "kernel")


def _can_redraw_lines() -> bool:
    return in_notebook() or FOLDER_VARIABLE in os.environ or sys.stderr.isatty()


class tqdm:
    """One progress bar for all processes on a machine: `tqdm(iterable)`, or `tqdm(total=n)` and `update`."""

    def __init__(
        self,
        iterable: Optional[Iterable] = None,
        desc: str = "",
        total: Optional[int] = None,
        leave: bool = True,
        file=None,
        unit: str = "it",
        disable: bool = False,
    ):
        if total is None and hasattr(iterable, "__len__"):
            total = len(iterable)
        self._iterable = iterable
        self.total = total
        self._bar = _core.Bar(
            total=total,
            description=desc or "",
            unit=unit,
            show=False if disable else None,
            file=file or sys.stderr,
            terminal=file.isatty() if file is not None else _can_redraw_lines(),
            leave=leave,
        )

    n = property(lambda self: self._bar.n)
    disable = property(lambda self: not self._bar.is_shown)

    def update(self, n: int = 1) -> None:
        self._bar.update(n)

    def set_description(self, desc: str = "") -> None:
        self._bar.set_description(desc)

    def set_postfix(self, **values) -> None:
        self._bar.set_postfix(", ".join(f"{name}={_short(value)}" for name, value in values.items()))

    def close(self) -> None:
        self._bar.close()

    def __iter__(self):
        try:
            for item in self._iterable:
                yield item
                self.update(1)
        finally:
            self.close()

    def __len__(self) -> int:
        return self.total

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _short(value) -> str:
    value = value.item() if isinstance(value, torch.Tensor) else value
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class TrainingProgress:
    """Counts steps; in a notebook it also plots loss, learning rate and throughput during training.

        progress = TrainingProgress(num_training_steps)
        …
        progress.update(loss=loss, lr=scheduler.get_last_lr()[0], samples=8)

    The plot is an SVG that is drawn at most twice per second; between redraws, losses stay on their device. A terminal
    only shows the bar. With several processes, only rank 0 shows progress.
    """

    def __init__(self, total: Optional[int] = None, desc: str = ""):
        self._bar = tqdm(total=total, desc=desc)
        self._curve = _Curve(total) if self._bar._bar.is_shown else None
        self._pending: list = []
        self._step = 0
        self._samples = 0
        self._drawn = self._start = time.monotonic()
        self._sink = self._choose_sink() if self._curve is not None else None

    @staticmethod
    def _choose_sink():
        if os.environ.get(FOLDER_VARIABLE):
            return _ProgressWriter(os.environ[FOLDER_VARIABLE])
        return Picture() if in_notebook() else None

    def update(self, n: int = 1, *, loss: Any = None, lr: Optional[float] = None, samples: int = 0) -> None:
        """Counts `n` more steps; the values belong to the last of these steps."""
        self._step += n
        self._samples += samples
        self._bar.update(n)
        if self._sink is None:
            return
        if isinstance(loss, torch.Tensor):
            loss = loss.detach()
        if loss is not None or lr is not None:
            self._pending.append((self._step, loss, lr))
        if time.monotonic() - self._drawn >= _INTERVAL:
            self._draw()

    def _draw(self) -> None:
        now = time.monotonic()
        seconds = max(now - self._start, 1e-9)
        count, unit = (self._samples, "samples/s") if self._samples else (self._step, "steps/s")
        self._curve.add(_read(self._pending), self._step, count / seconds, unit)
        self._pending.clear()
        self._sink.show(self._curve.values())
        self._drawn = time.monotonic()

    def close(self) -> None:
        """Draws the final state."""
        if self._sink is not None:
            self._draw()
            self._sink = None
        self._bar.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _read(points: list) -> list:
    """Converts losses to numbers; copies losses that are on a device to the CPU all at once."""
    tensors = [loss.reshape(()).float() for _, loss, _ in points if isinstance(loss, torch.Tensor)]
    numbers = iter(torch.stack(tensors).tolist() if tensors else [])
    return [(step, next(numbers) if isinstance(loss, torch.Tensor) else loss, lr) for step, loss, lr in points]


class _Curve:
    """The points so far, thinned out to keep the plot small."""

    LIMIT = 400

    def __init__(self, total: Optional[int]):
        self._total = total
        self._points: list = []
        self._status: dict = {}

    def add(self, points: list, step: int, rate: float, unit: str) -> None:
        self._points += points
        while len(self._points) > self.LIMIT:
            self._points = self._points[:-1:2] + self._points[-1:]
        self._status = dict(step=step, total=self._total, rate=rate, unit=unit)

    def values(self) -> dict:
        return dict(points=self._points, **self._status)


class _ProgressWriter:
    """Writes the progress of rank 0 to a file that is replaced atomically; `ProgressReader` reads it."""

    def __init__(self, folder: str):
        self._path = os.path.join(folder, "progress")

    def show(self, values: dict) -> None:
        with open(self._path + ".part", "w") as file:
            json.dump(values, file)
        os.replace(self._path + ".part", self._path)


class Picture:
    """The plot in a notebook cell."""

    def __init__(self):
        self._handle = None

    def show(self, values: dict) -> None:
        from IPython.display import HTML, display

        picture = HTML(svg(values))
        if self._handle is None:
            self._handle = display(picture, display_id=True)
        else:
            self._handle.update(picture)


class ProgressReader:
    """Shows in the cell the progress that `_ProgressWriter` writes."""

    def __init__(self, folder: str):
        self._path = os.path.join(folder, "progress")
        self._last_modified = None
        self._picture = Picture() if in_notebook() else None

    def poll(self) -> None:
        if self._picture is None:
            return
        try:
            modified = os.stat(self._path).st_mtime_ns
            if modified == self._last_modified:
                return
            with open(self._path) as file:
                values = json.load(file)
        except FileNotFoundError:
            return
        self._last_modified = modified
        self._picture.show(values)
