# SPDX-License-Identifier: Apache-2.0
"""Readable logs from many processes, based on Python's `logging`."""

import functools
import logging
import os
from typing import Optional

from . import errors
from .state import PartialState


class MultiProcessAdapter(logging.LoggerAdapter):
    """Logs on the main process. `main_process_only=False`: on all processes; `in_order=True`: one after the other."""

    def log(self, level, msg, *args, **kwargs):
        if not PartialState.is_initialized():
            raise errors.StateError(
                f"logger `{self.logger.name}` was used before a PartialState was created",
                "create an Accelerator or a PartialState first",
            )
        main_only = kwargs.pop("main_process_only", True)
        in_order = kwargs.pop("in_order", False)
        kwargs.setdefault("stacklevel", 2)
        if not self.isEnabledFor(level):
            return
        state = PartialState()
        if in_order:
            for index in range(state.num_processes):
                if index == state.process_index:
                    self._write(level, msg, args, kwargs)
                state.wait_for_everyone()
        elif not main_only or state.is_main_process:
            self._write(level, msg, args, kwargs)

    def _write(self, level, msg, args, kwargs):
        text, kwargs = self.process(msg, kwargs)
        self.logger.log(level, text, *args, **kwargs)

    @functools.lru_cache(None)
    def warning_once(self, *args, **kwargs):
        """Like `warning`, but logs each message only once."""
        self.warning(*args, **kwargs)


def get_logger(name: str, log_level: Optional[str] = None) -> MultiProcessAdapter:
    """Returns a logger with the level `log_level`; default: ACCELERATE_LOG_LEVEL, or else the default in `logging`."""
    level = log_level or os.environ.get("ACCELERATE_LOG_LEVEL")
    logger = logging.getLogger(name)
    if level is not None:
        logger.setLevel(level.upper())
        logger.root.setLevel(level.upper())
    return MultiProcessAdapter(logger, {})
