# SPDX-License-Identifier: Apache-2.0
"""Trackers that use the Python packages of Aim, ClearML, Comet and SwanLab.

They get flat keys with numbers, strings and histograms, and images as PNG files. Options go to the function that
starts a run: `aim.Run`, `clearml.Task.init`, `comet_ml.start` and `swanlab.init`. API keys and server addresses
come from the environment variables and configuration files of these packages.
"""

import importlib
import io
import math
import os
import re
import sys
from typing import Any, Callable, Optional

from . import errors
from .tracking import GeneralTracker


def _histogram(value: Any) -> Optional[dict]:
    return value if isinstance(value, dict) else None


def _has_equal_intervals(histogram: dict) -> bool:
    limits = [histogram["min"], *histogram["limits"]]
    width = (limits[-1] - limits[0]) / max(1, len(limits) - 1)
    return all(
        math.isclose(right - left, width, rel_tol=1e-6) for left, right in zip(limits, limits[1:])
    )


class ServiceTracker(GeneralTracker):
    """A tracker that starts and finishes a run of `package`. `self.run` is the package's own object."""

    requires_logging_directory = False
    package = ""

    def __init__(self, project: str, **options):
        super().__init__()
        self.project = project
        self.options = options
        self.run: Any = None

    @property
    def tracker(self) -> Any:
        return self.run

    def import_package(self) -> Any:
        try:
            return importlib.import_module(self.package)
        except ImportError as error:
            raise errors.UnsupportedError(
                f"tracker `{self.name}` needs the Python package `{self.package}`, but {sys.executable} cannot "
                f"import it: {error}",
                f"run `{sys.executable} -m pip install {self.package.replace('_', '-')}`",
            ) from None

    def pictures(self, png_files: list) -> list:
        """The images as Pillow objects."""
        try:
            image = importlib.import_module("PIL.Image")
        except ImportError:
            raise errors.UnsupportedError(
                f"tracker `{self.name}` needs Pillow to log images", f"run `{sys.executable} -m pip install pillow`"
            ) from None
        return [image.open(io.BytesIO(png)) for png in png_files]


class AimTracker(ServiceTracker):
    """A run in the Aim repository `logging_dir`."""

    name = "aim"
    package = "aim"
    requires_logging_directory = True

    def __init__(self, project: str, logging_dir: str = ".", **options):
        super().__init__(project, **options)
        self.logging_dir = logging_dir

    def start(self) -> None:
        self.aim = self.import_package()
        os.makedirs(self.logging_dir, exist_ok=True)
        self.run = self.aim.Run(**{"repo": self.logging_dir, **self.options})
        self.run.name = self.project

    def store_init_configuration(self, values: dict) -> None:
        self.run["hparams"] = values

    def log(self, values: dict, step: Optional[int] = None, **kwargs) -> None:
        for key, value in values.items():
            tracked = self._tracked(value)
            if tracked is not None:
                self.run.track(tracked, name=key, step=step, **kwargs)

    def _tracked(self, value: Any) -> Any:
        if isinstance(value, bool):
            return int(value)
        if isinstance(value, str):
            return self.aim.Text(value)
        histogram = _histogram(value)
        if histogram is None:
            return value
        if not _has_equal_intervals(histogram):
            return None
        return self.aim.Distribution(hist=histogram["counts"], bin_range=(histogram["min"], histogram["limits"][-1]))

    def log_images(self, values: dict, step: Optional[int] = None) -> None:
        for key, png_files in values.items():
            self.run.track([self.aim.Image(picture) for picture in self.pictures(png_files)], name=key, step=step)

    def finish(self) -> None:
        self.run.close()


class ClearMLTracker(ServiceTracker):
    """A ClearML task. The environment variables CLEARML_PROJECT and CLEARML_TASK can set its project and its name."""

    name = "clearml"
    package = "clearml"

    def start(self) -> None:
        task = self.import_package().Task
        self.run = task.current_task()
        self.started_here = self.run is None
        if self.started_here:
            names = {
                "project_name": os.environ.get("CLEARML_PROJECT", self.project),
                "task_name": os.environ.get("CLEARML_TASK", self.project),
            }
            self.run = task.init(**{**names, **self.options})

    def store_init_configuration(self, values: dict) -> None:
        self.run.connect_configuration(values)

    @staticmethod
    def title_and_series(key: str) -> tuple:
        """`eval_loss` is the series `eval` of the chart `loss`; other keys are in the series `train`."""
        series, separator, title = key.partition("_")
        return (title, series) if separator and series in ("eval", "test", "train") else (key, "train")

    def log(self, values: dict, step: Optional[int] = None, **kwargs) -> None:
        logger = self.run.get_logger()
        for key, value in values.items():
            title, series = self.title_and_series(key)
            histogram = _histogram(value)
            # ClearML would store numbers that are not finite as 0.
            if isinstance(value, str) or isinstance(value, float) and not math.isfinite(value):
                logger.report_text(f"{key}: {value}", print_console=False)
            elif histogram is not None:
                labels = [f"{limit:g}" for limit in histogram["limits"]]
                logger.report_histogram(title, series, histogram["counts"], iteration=step, xlabels=labels)
            elif step is None:
                logger.report_single_value(name=key, value=value, **kwargs)
            else:
                logger.report_scalar(title=title, series=series, value=value, iteration=step, **kwargs)

    def log_images(self, values: dict, step: Optional[int] = None) -> None:
        for key, png_files in values.items():
            title, series = self.title_and_series(key)
            pictures = self.pictures(png_files)
            for index, picture in enumerate(pictures):
                # Images with the same names and step would replace each other.
                numbered = series if len(pictures) == 1 else f"{series}_{index}"
                self.run.get_logger().report_image(title, numbered, iteration=step, image=picture)

    def log_table(self, table_name: str, columns: list, data: list, step: Optional[int] = None) -> None:
        title, series = self.title_and_series(table_name)
        self.run.get_logger().report_table(title, series, iteration=step, table_plot=[columns, *data])

    def finish(self) -> None:
        if self.started_here:
            self.run.close()


class CometMLTracker(ServiceTracker):
    """A Comet experiment."""

    name = "comet_ml"
    package = "comet_ml"

    def start(self) -> None:
        self.run = self.import_package().start(**{"project_name": self.project, **self.options})

    def store_init_configuration(self, values: dict) -> None:
        self.run.log_parameters(values)

    def log(self, values: dict, step: Optional[int] = None, **kwargs) -> None:
        if step is not None:
            self.run.set_step(step)
        for key, value in values.items():
            if isinstance(value, str):
                self.run.log_other(key, value, **kwargs)
            elif _histogram(value) is None:
                # Comet stores a bool as text.
                number = int(value) if isinstance(value, bool) else value
                self.run.log_metric(key, number, step=step, **kwargs)

    def log_images(self, values: dict, step: Optional[int] = None) -> None:
        for key, png_files in values.items():
            for png in png_files:
                self.run.log_image(io.BytesIO(png), name=key, step=step)

    def log_table(self, table_name: str, columns: list, data: list, step: Optional[int] = None) -> None:
        name = table_name if step is None else f"{table_name}-{step}"
        self.run.log_table(f"{name}.csv", tabular_data=data, headers=columns)

    def finish(self) -> None:
        self.run.end()


class SwanLabTracker(ServiceTracker):
    """A SwanLab experiment."""

    name = "swanlab"
    package = "swanlab"

    def start(self) -> None:
        self.swanlab = self.import_package()
        project = re.sub(r"[^0-9a-zA-Z_\-+.]", lambda found: f"_x{ord(found[0]):X}_", self.project)
        self.run = self.swanlab.init(**{"project": project, **self.options})

    def store_init_configuration(self, values: dict) -> None:
        self.swanlab.config.update(values)

    def log(self, values: dict, step: Optional[int] = None, **kwargs) -> None:
        data = {
            key: self.swanlab.Text(value) if isinstance(value, str) else value
            for key, value in values.items()
            if _histogram(value) is None
        }
        if data:
            self.run.log(data, step=step, **kwargs)

    def log_images(self, values: dict, step: Optional[int] = None) -> None:
        for key, png_files in values.items():
            self.run.log({key: [self.swanlab.Image(picture) for picture in self.pictures(png_files)]}, step=step)

    def finish(self) -> None:
        self.run.finish()


SERVICES: dict = {cls.name: cls for cls in (AimTracker, ClearMLTracker, CometMLTracker, SwanLabTracker)}


def class_named(name: str) -> Optional[type]:
    """The class of a service, or the class `module:Class`; None if `name` has neither form."""
    if name in SERVICES:
        return SERVICES[name]
    module, separator, attribute = name.partition(":")
    if not separator:
        return None
    try:
        found: Callable = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise errors.ArgumentError(
            f"{sys.executable} cannot import the tracker `{name}`: {error}",
            "write `module:Class`, and add the folder of the module to PYTHONPATH",
        ) from None
    if not (isinstance(found, type) and issubclass(found, GeneralTracker)):
        raise errors.ArgumentError(f"`{name}` is not a subclass of accelerate_cpp.GeneralTracker")
    return found
