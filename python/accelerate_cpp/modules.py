# SPDX-License-Identifier: Apache-2.0
"""Prepares Python modules for the core: collects their tensors by name, and wraps `forward` in autocast."""

import functools

import torch

from . import _nests, errors
from ._native import core as _core

_PRECISIONS = {"bf16": torch.bfloat16, "fp16": torch.float16}


def _named(model: torch.nn.Module):
    """Parameters and persistent buffers with their names in `state_dict`, module by module."""
    parameters, buffers = [], []
    for prefix, module in model.named_modules(remove_duplicate=False):
        start = prefix + "." if prefix else ""
        for name, tensor in module._parameters.items():
            if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
                raise errors.StateError(
                    f"parameter `{start}{name}` is not initialized yet",
                    "run one batch through the model before `prepare`",
                )
            if tensor is not None:
                parameters.append((start + name, tensor))
        for name, tensor in module._buffers.items():
            if tensor is not None and name not in module._non_persistent_buffers_set:
                buffers.append((start + name, tensor))
    return parameters, buffers


def mirror(model: torch.nn.Module):
    """Returns the core's view of the model: the same tensors with the same names."""
    return _core.Module(*_named(model))


def mirror_of_batch_norms(model: torch.nn.Module, kind: type):
    """Returns the core's view of the batch norms of type `kind` in the model; None if it has none."""
    parameters, buffers = [], []
    for prefix, module in model.named_modules():
        if not isinstance(module, kind):
            continue
        start = prefix + "." if prefix else ""
        if module.running_mean is None:
            raise errors.UnsupportedError(
                f"the batch norm `{prefix or type(module).__name__}` has no running statistics, so it cannot be "
                "synchronized",
                "create it with `track_running_stats=True`",
            )
        if module.weight is not None:
            parameters.append((start + "weight", module.weight))
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            buffers.append((start + name, getattr(module, name)))
    return _core.Module(parameters, buffers) if buffers else None


class AutocastForward:
    """Runs a model's `forward` in lower precision and converts its results to fp32."""

    def __init__(self, model, device_type: str, precision: str, kwargs):
        self.original = model.forward
        self._context = functools.partial(
            torch.autocast,
            device_type=device_type,
            dtype=_PRECISIONS[precision],
            enabled=kwargs.enabled,
            cache_enabled=kwargs.cache_enabled,
        )
        functools.update_wrapper(self, self.original)

    def __call__(self, *args, **kwargs):
        with self._context():
            outputs = self.original(*args, **kwargs)
        return _nests.map_tensors(_to_fp32, outputs)


def _to_fp32(tensor):
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def wrap_forward(model, device_type: str, precision: str, kwargs) -> None:
    if not isinstance(model.__dict__.get("forward"), AutocastForward):
        model.forward = AutocastForward(model, device_type, precision, kwargs)


def unwrap_forward(model) -> None:
    if isinstance(model.__dict__.get("forward"), AutocastForward):
        del model.forward
