# SPDX-License-Identifier: Apache-2.0
"""Adapters through which the core uses Python optimizers and schedulers.

A checkpoint stores the state of an optimizer by parameter name, in the format that
`accelerate/optimizer_state.h` describes: C++ can load what Python saved, and vice versa.
"""

import functools
import weakref

import torch

from . import errors
from ._native import core as _core


class OptimizerAdapter:
    """The optimizer interface that the core uses."""

    def __init__(self, optimizer: torch.optim.Optimizer):
        self._optimizer = optimizer

    def step(self):
        self._optimizer.step()

    def get_lr(self, group: int) -> float:
        return float(self._optimizer.param_groups[group]["lr"])

    def set_lr(self, group: int, value: float) -> None:
        rate = self._optimizer.param_groups[group]["lr"]
        if isinstance(rate, torch.Tensor):
            rate.fill_(value)
        else:
            self._optimizer.param_groups[group]["lr"] = value

    def _parameters(self):
        return [parameter for group in self._optimizer.param_groups for parameter in group["params"]]

    def save(self, names: list):
        """Returns the tensors, named `<parameter>.<slot>`, and all other values."""
        if len(names) != len(self._parameters()):
            raise errors.StateError(
                f"the optimizer's number of parameters was {len(names)} in `prepare`, "
                f"but is now {len(self._parameters())}",
                "call `add_param_group` before `prepare`, or call `free_memory()` and prepare everything again",
            )
        tensors, states = {}, {}
        name_of = dict(zip(map(id, self._parameters()), names))
        for parameter, slots in self._optimizer.state.items():
            name = name_of[id(parameter)]
            states[name] = {}
            for slot, value in slots.items():
                if slot == "step":
                    states[name][slot] = int(value)
                elif isinstance(value, torch.Tensor):
                    tensors[f"{name}.{slot}"] = value
                elif value is not None:
                    states[name][slot] = value
        groups = [
            {"params": [name_of[id(parameter)] for parameter in group["params"]], **_options(group)}
            for group in self._optimizer.param_groups
        ]
        return tensors, {"optimizer": type(self._optimizer).__name__, "state": states, "param_groups": groups}

    def stage(self, tensors: dict, scalars: dict, names: list):
        """Checks a saved state; returns a function that loads it into the optimizer."""
        self._check(tensors, scalars, names)
        parameter_of = dict(zip(names, self._parameters()))
        states = {name: dict(slots) for name, slots in scalars["state"].items()}
        for key, tensor in tensors.items():
            name, slot = _split(key, parameter_of)
            states.setdefault(name, {})[slot] = tensor
        return functools.partial(self._apply, parameter_of, states, scalars["param_groups"])

    def _check(self, tensors, scalars, names):
        class_name = type(self._optimizer).__name__
        if scalars["optimizer"] != class_name:
            raise errors.FormatError(
                f"the saved state belongs to the optimizer `{scalars['optimizer']}`, not to `{class_name}`"
            )
        name_of = dict(zip(map(id, self._parameters()), names))
        current = [[name_of[id(p)] for p in group["params"]] for group in self._optimizer.param_groups]
        saved = [group["params"] for group in scalars["param_groups"]]
        problems = []
        if current != saved:
            problems.append(f"different parameter groups: {saved} in the saved state, {current} in the optimizer")
        problems += [f"the optimizer has no parameter `{name}`" for name in scalars["state"] if name not in names]
        shapes = {name: parameter.shape for name, parameter in zip(names, self._parameters())}
        for key, tensor in tensors.items():
            name, slot = _split(key, shapes)
            if name is None:
                problems.append(f"the optimizer does not use tensor `{key}`")
            elif tensor.dim() > 0 and tensor.shape != shapes[name] and class_name != "LBFGS":
                problems.append(
                    f"tensor `{key}` has shape {list(tensor.shape)}, but its parameter has shape {list(shapes[name])}"
                )
        if problems:
            raise errors.FormatError(
                "the saved state does not match the optimizer:\n  " + "\n  ".join(problems),
                "load it into an optimizer with the same parameters",
            )

    def _apply(self, parameter_of, states, groups):
        for group, saved in zip(self._optimizer.param_groups, groups):
            for key, value in saved.items():
                # The other options choose an implementation, which is not part of the state.
                if key not in ("params", "foreach", "fused", "capturable", "differentiable"):
                    old = group.get(key)
                    group[key] = tuple(value) if isinstance(old, tuple) else value
        self._optimizer.state.clear()
        for name, slots in states.items():
            parameter = parameter_of[name]
            group = next(g for g in self._optimizer.param_groups if any(p is parameter for p in g["params"]))
            self._optimizer.state[parameter] = {
                slot: _slot_value(slot, value, parameter, group) for slot, value in slots.items()
            }


def _options(group: dict) -> dict:
    result = {}
    for key, value in group.items():
        if key == "params":
            continue
        if isinstance(value, torch.Tensor):
            value = float(value)
        if isinstance(value, tuple):
            value = [float(item) for item in value]
        if value is None or isinstance(value, (bool, int, float, str, list)):
            result[key] = value
    return result


def _split(key: str, names):
    """Splits a tensor name into parameter and slot; parameter names may contain dots, slots do not."""
    name, _, slot = key.rpartition(".")
    return (name, slot) if name in names else (None, None)


def _slot_value(slot, value, parameter, group):
    if slot == "step":
        on_device = group.get("capturable") or group.get("fused")
        device = parameter.device if on_device else "cpu"
        return torch.tensor(float(value), dtype=torch.float32, device=device)
    if isinstance(value, torch.Tensor):
        dtype = parameter.dtype if value.is_floating_point() and value.dim() > 0 else value.dtype
        return value.clone().to(device=parameter.device, dtype=dtype)
    return value


def choose_kernel(optimizer: torch.optim.Optimizer) -> None:
    """Makes torch's Adam and AdamW use the fused kernel on a CPU, unless the user chose an implementation.

    By default, torch makes a dozen passes over every parameter on a CPU. For a BERT with 4 million parameters, this
    takes 25 ms; the fused kernel takes 3.6 ms. The results differ only by rounding (1e-7).
    """
    if type(optimizer) not in (torch.optim.Adam, torch.optim.AdamW):
        return
    groups = optimizer.param_groups
    chosen = any(group["foreach"] is not None or group["fused"] is not None for group in groups)
    special = any(
        group["differentiable"] or group["capturable"] or isinstance(group["lr"], torch.Tensor) for group in groups
    )
    parameters = [parameter for group in groups for parameter in group["params"]]
    plain = all(p.device.type == "cpu" and p.is_floating_point() and p.layout == torch.strided for p in parameters)
    if not chosen and not special and plain:
        for group in groups:
            group["fused"] = True


def mirror_optimizer(optimizer: torch.optim.Optimizer):
    """Returns the core's view of the optimizer."""
    groups = [list(group["params"]) for group in optimizer.param_groups]
    return _core.Optimizer(OptimizerAdapter(optimizer), groups)


# ---- schedulers ---------------------------------------------------------------------------------

_prepared: "weakref.WeakKeyDictionary" = weakref.WeakKeyDictionary()


class _PreparedStep:
    """First base class of a prepared scheduler; makes its steps follow the optimizer's steps."""

    def step(self, *args, **kwargs):
        if args or kwargs:  # with a metric or an epoch: exactly one step
            return super().step(*args, **kwargs)
        _prepared[self].step()


class SchedulerAdapter:
    """The scheduler interface that the core uses."""

    def __init__(self, scheduler):
        self._scheduler = weakref.ref(scheduler)
        self._advance = type(scheduler).step

    def advance(self, step_count: int) -> None:
        scheduler = self._scheduler()
        if hasattr(scheduler, "_step_count"):
            scheduler._step_count = step_count
        self._advance(scheduler)

    def base_lrs(self):
        scheduler = self._scheduler()
        rates = getattr(scheduler, "base_lrs", None)
        if rates is None:
            rates = [group.get("initial_lr", group["lr"]) for group in scheduler.optimizer.param_groups]
        return [float(rate) for rate in rates]

    def last_lr(self):
        return [float(group["lr"]) for group in self._scheduler().optimizer.param_groups]

    def last_epoch(self) -> int:
        return int(getattr(self._scheduler(), "last_epoch", 0))

    def step_count(self) -> int:
        return int(getattr(self._scheduler(), "_step_count", 1))

    def total_steps(self):
        total = getattr(self._scheduler(), "total_steps", None)
        return None if total is None else int(total)

    def save(self) -> dict:
        """The values of `state_dict` that are numbers, strings, and lists or dicts of these."""
        return {key: value for key, value in self._scheduler().state_dict().items() if _is_plain(value)}

    def load(self, state: dict) -> None:
        scheduler = self._scheduler()
        scheduler.load_state_dict({**scheduler.state_dict(), **state})


def _is_plain(value) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    return isinstance(value, (bool, int, float, str, type(None)))


def mirror_scheduler(scheduler, optimizer_mirror):
    """Makes the scheduler follow the core, in place, and returns the core's view of it."""
    mirror = _core.Scheduler(SchedulerAdapter(scheduler), optimizer_mirror)
    _prepared[scheduler] = mirror
    original = type(scheduler)
    # Changes the class, not the instance, since `state_dict` saves the attributes of the instance.
    scheduler.__class__ = type(original.__name__, (_PreparedStep, original), {"__module__": original.__module__})
    return mirror


def is_prepared_scheduler(scheduler) -> bool:
    return isinstance(scheduler, _PreparedStep)


def release_scheduler(scheduler) -> None:
    """Restores the scheduler's original class."""
    if is_prepared_scheduler(scheduler):
        scheduler.__class__ = type(scheduler).__mro__[2]
        _prepared.pop(scheduler, None)


def is_scheduler(value) -> bool:
    return isinstance(value, torch.optim.lr_scheduler.LRScheduler)
