# SPDX-License-Identifier: Apache-2.0
"""Trackers written in Python, alongside the trackers of the C++ core.

    class PrintTracker(GeneralTracker):
        name = "print"
        requires_logging_directory = False

        @property
        def tracker(self):
            return None

        def store_init_configuration(self, values):
            print(values)

        def log(self, values, step=None, **kwargs):
            print(step, values)

    accelerator = Accelerator(log_with=["tensorboard", PrintTracker()])
"""

import functools
import os
from typing import Any, Callable, Optional

from . import errors

_registered: dict = {}


class GeneralTracker:
    """Base class of trackers. A subclass defines `name`, `requires_logging_directory`, `tracker` and `log`.

    `start` is called by `init_trackers`. All other functions are called on a thread of this tracker, in the order of
    the calls to the Accelerator. They get numbers and strings under flat keys: a tensor becomes a number, and
    `{"eval": {"f1": 1}}` becomes `{"eval/f1": 1}`.
    """

    main_process_only = True

    def __init__(self, _blank: bool = False):
        if _blank:
            return
        missing = [name for name in ("name", "requires_logging_directory", "tracker") if name not in dir(self)]
        if missing:
            names = ", ".join(f"`{name}`" for name in missing)
            raise NotImplementedError(f"the tracker class `{type(self).__name__}` does not define {names}")

    def start(self) -> None:
        pass

    def store_init_configuration(self, values: dict) -> None:
        pass

    def log(self, values: dict, step: Optional[int] = None, **kwargs) -> None:
        pass

    def log_images(self, values: dict, step: Optional[int] = None) -> None:
        """`values` maps each key to a list of PNG files, as bytes."""
        raise NotImplementedError(f"the tracker `{getattr(self, 'name', '')}` does not support images")

    def log_table(self, table_name: str, columns: list, data: list, step: Optional[int] = None) -> None:
        raise NotImplementedError(f"the tracker `{getattr(self, 'name', '')}` does not support tables")

    def finish(self) -> None:
        pass


class NativeTracker(GeneralTracker):
    """Stands for a tracker of the C++ core; use `Accelerator.log` to log values."""

    requires_logging_directory = True

    def __init__(self, name: str):
        self.name = name

    @property
    def tracker(self):
        raise errors.UnsupportedError(
            f"tracker `{self.name}` is implemented in C++; there is no Python object behind it",
            "use `Accelerator.log`, or a tracker of your own",
        )


def on_main_process(function: Callable) -> Callable:
    """Decorates a function of a tracker; exists so that trackers written for Hugging Face Accelerate work."""

    @functools.wraps(function)
    def call(self, *args, **kwargs):
        return function(self, *args, **kwargs)

    return call


def register_tracker_class(tracker_class: type) -> type:
    """Makes a subclass of `GeneralTracker` available to `log_with` under its `name`.

    `init_trackers` calls the class with the name of the project, `logging_dir=` if `requires_logging_directory` is
    true, and the options of `init_kwargs`. May be used as a decorator.
    """
    if not (isinstance(tracker_class, type) and issubclass(tracker_class, GeneralTracker)):
        raise errors.ArgumentError(f"{tracker_class!r} is not a subclass of GeneralTracker")
    name = tracker_class.name
    if _registered.get(name, tracker_class) is not tracker_class:
        raise errors.ArgumentError(f"a tracker class named `{name}` is already registered")
    _registered[name] = tracker_class
    return tracker_class


class Adapter:
    """What the C++ core calls instead of a Python tracker."""

    def __init__(self, tracker: Optional[GeneralTracker], tracker_class: type, name: Optional[str] = None):
        self.instance = tracker
        self._class = tracker_class
        source = tracker or tracker_class
        self.name = name or source.name
        self.requires_logging_directory = bool(source.requires_logging_directory)
        self.main_process_only = bool(source.main_process_only)

    def start(self, project: str, logging_dir: str, kwargs: Optional[dict]) -> None:
        if self.instance is None:
            folder = {"logging_dir": logging_dir} if self.requires_logging_directory else {}
            self.instance = self._class(project, **folder, **(kwargs or {}))
        self.instance.start()

    def store_init_configuration(self, values: dict) -> None:
        self.instance.store_init_configuration(values)

    def log(self, values: dict, step: int, kwargs: Optional[dict]) -> None:
        self.instance.log(values, step=step, **(kwargs or {}))

    def log_images(self, values: dict, step: int) -> None:
        self.instance.log_images(values, step=step)

    def log_table(self, table_name: str, columns: list, data: list, step: int) -> None:
        self.instance.log_table(table_name, columns=columns, data=data, step=step)

    def finish(self) -> None:
        self.instance.finish()


def chosen(log_with: Any) -> list:
    """The names and adapters for `Accelerator(log_with=…)`."""
    from ._services import class_named

    if log_with is None:
        return []
    result = []
    for choice in log_with if isinstance(log_with, (list, tuple)) else [log_with]:
        choice = getattr(choice, "value", choice)  # of an enum such as LoggerType
        if isinstance(choice, GeneralTracker):
            result.append(Adapter(choice, type(choice)))
        elif isinstance(choice, str) and choice in _registered:
            result.append(Adapter(None, _registered[choice]))
        elif isinstance(choice, str) and (named := class_named(choice)):
            result.append(Adapter(None, named, choice))
        elif isinstance(choice, str):
            result.append(choice)
        else:
            raise errors.ArgumentError(
                f"`log_with` contains a value of type `{type(choice).__name__}`",
                "pass tracker names or `GeneralTracker` objects",
            )
    return result


def plain(value: Any) -> Any:
    """A configuration as JSON values; other objects, such as paths, as strings."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(item) for item in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return str(value)
