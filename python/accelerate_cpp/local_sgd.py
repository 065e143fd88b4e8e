# SPDX-License-Identifier: Apache-2.0
"""Local SGD: processes train independently and average their parameters periodically."""

from ._native import core as _core


class LocalSGD:
    """Keeps gradients local inside its block, and averages parameters every `local_sgd_steps` steps."""

    def __init__(self, accelerator, model, local_sgd_steps: int, enabled: bool = True):
        self._options = (accelerator, model, local_sgd_steps, enabled)
        self._local = None

    def __enter__(self):
        accelerator, model, steps, enabled = self._options
        self._local = _core.LocalSGD(accelerator._core, accelerator._mirror_of(model, "LocalSGD"), steps, enabled)
        return self

    def __exit__(self, kind, value, trace):
        local, self._local = self._local, None
        if kind is None:
            local.finish()

    def step(self) -> None:
        """Counts one optimizer step."""
        self._local.step()
