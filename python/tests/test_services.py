# SPDX-License-Identifier: Apache-2.0
"""The trackers for services, with invented packages in place of the real ones; needs neither torch nor the C++ core.

tests/trackers/read_services.py runs them with the real packages.
"""

import os
import subprocess
import sys
import types
import unittest
from unittest import mock

from accelerate_cpp import _services, errors

HISTOGRAM = {"min": 0.0, "max": 2.0, "limits": [1.0, 2.0], "counts": [3.0, 4.0]}
UNEQUAL = {**HISTOGRAM, "limits": [0.5, 2.0]}


class Services(unittest.TestCase):
    def use(self, name: str, **attributes) -> mock.Mock:
        """Installs an invented package; returns the mock that collects the calls of its functions."""
        package = mock.Mock(spec=list(attributes), **attributes)
        patch = mock.patch.dict(sys.modules, {name: package})
        patch.start()
        self.addCleanup(patch.stop)
        return package

    def setUp(self):
        images = types.SimpleNamespace(open=lambda file: ("picture", file.read()))
        patch = mock.patch.dict(sys.modules, {"PIL": types.SimpleNamespace(Image=images), "PIL.Image": images})
        patch.start()
        self.addCleanup(patch.stop)

    def test_aim(self):
        aim = self.use(
            "aim", Run=mock.MagicMock(), Text=lambda text: ("text", text), Image=mock.Mock(), Distribution=dict
        )
        tracker = _services.class_named("aim")("project", logging_dir=os.devnull + "x", experiment="e")
        with mock.patch("os.makedirs"):
            tracker.start()
        aim.Run.assert_called_once_with(repo=os.devnull + "x", experiment="e")
        run = tracker.tracker
        self.assertEqual(run.name, "project")
        tracker.store_init_configuration({"lr": 1})
        run.__setitem__.assert_called_once_with("hparams", {"lr": 1})
        tracker.log({"a": 0.5, "b": True, "t": "x", "h": HISTOGRAM, "u": UNEQUAL}, step=3, context="c")
        self.assertEqual(
            run.track.call_args_list,
            [
                mock.call(value, name=key, step=3, context="c")
                for key, value in {
                    "a": 0.5,
                    "b": 1,
                    "t": ("text", "x"),
                    "h": {"hist": [3.0, 4.0], "bin_range": (0.0, 2.0)},
                }.items()
            ],
        )
        tracker.log_images({"i": [b"1", b"2"]}, step=4)
        self.assertEqual(aim.Image.call_args_list, [mock.call(("picture", b"1")), mock.call(("picture", b"2"))])
        with self.assertRaises(NotImplementedError):
            tracker.log_table("t", columns=[], data=[])
        tracker.finish()
        run.close.assert_called_once_with()

    def test_clearml(self):
        task = mock.Mock(**{"current_task.return_value": None})
        self.use("clearml", Task=task)
        tracker = _services.class_named("clearml")("project", task_name="first")
        with mock.patch.dict(os.environ, {"CLEARML_PROJECT": "chosen"}):
            tracker.start()
        task.init.assert_called_once_with(project_name="chosen", task_name="first")
        logger = tracker.tracker.get_logger()
        tracker.log({"loss": 0.5, "eval_f1": 1, "t": "x", "h": HISTOGRAM, "bad": float("nan")}, step=3)
        self.assertEqual(
            logger.method_calls,
            [
                mock.call.report_scalar(title="loss", series="train", value=0.5, iteration=3),
                mock.call.report_scalar(title="f1", series="eval", value=1, iteration=3),
                mock.call.report_text("t: x", print_console=False),
                mock.call.report_histogram("h", "train", [3.0, 4.0], iteration=3, xlabels=["1", "2"]),
                mock.call.report_text("bad: nan", print_console=False),
            ],
        )
        logger.reset_mock()
        tracker.log({"total": 2})
        tracker.log_images({"i": [b"1"], "test_j": [b"1", b"2"]}, step=4)
        tracker.log_table("t", columns=["a"], data=[[1]], step=5)
        self.assertEqual(
            logger.method_calls,
            [
                mock.call.report_single_value(name="total", value=2),
                mock.call.report_image("i", "train", iteration=4, image=("picture", b"1")),
                mock.call.report_image("j", "test_0", iteration=4, image=("picture", b"1")),
                mock.call.report_image("j", "test_1", iteration=4, image=("picture", b"2")),
                mock.call.report_table("t", "train", iteration=5, table_plot=[["a"], [1]]),
            ],
        )
        tracker.finish()
        tracker.tracker.close.assert_called_once_with()

    def test_clearml_continues_the_current_task_and_leaves_it_open(self):
        task = mock.Mock()
        self.use("clearml", Task=task)
        tracker = _services.class_named("clearml")("project")
        tracker.start()
        tracker.finish()
        self.assertIs(tracker.tracker, task.current_task.return_value)
        task.init.assert_not_called()
        tracker.tracker.close.assert_not_called()

    def test_comet(self):
        package = self.use("comet_ml", start=mock.Mock())
        tracker = _services.class_named("comet_ml")("project", online=False)
        tracker.start()
        package.start.assert_called_once_with(project_name="project", online=False)
        experiment = tracker.tracker
        tracker.log({"a": 0.5, "t": "x", "h": HISTOGRAM}, step=3)
        tracker.log_images({"i": [b"1"]}, step=4)
        tracker.log_table("t", columns=["a"], data=[[1]], step=5)
        tracker.finish()
        names = [call[0] for call in experiment.method_calls]
        self.assertEqual(names, ["set_step", "log_metric", "log_other", "log_image", "log_table", "end"])
        experiment.log_metric.assert_called_once_with("a", 0.5, step=3)
        experiment.log_table.assert_called_once_with("t-5.csv", tabular_data=[[1]], headers=["a"])

    def test_swanlab(self):
        package = self.use(
            "swanlab",
            init=mock.Mock(),
            config=mock.Mock(),
            Text=lambda text: ("text", text),
            Image=lambda picture: picture,
        )
        tracker = _services.class_named("swanlab")("team/project", mode="offline")
        tracker.start()
        package.init.assert_called_once_with(project="team_x2F_project", mode="offline")
        tracker.store_init_configuration({"lr": 1})
        package.config.update.assert_called_once_with({"lr": 1})
        tracker.log({"a": 0.5, "t": "x", "h": HISTOGRAM}, step=3)
        tracker.log({"h": HISTOGRAM}, step=3)
        tracker.log_images({"i": [b"1", b"2"]}, step=4)
        tracker.finish()
        self.assertEqual(
            tracker.tracker.method_calls,
            [
                mock.call.log({"a": 0.5, "t": ("text", "x")}, step=3),
                mock.call.log({"i": [("picture", b"1"), ("picture", b"2")]}, step=4),
                mock.call.finish(),
            ],
        )

    def test_missing_packages_are_named(self):
        with mock.patch.dict(sys.modules, {"comet_ml": None}):
            with self.assertRaisesRegex(errors.UnsupportedError, "needs the Python package `comet_ml`") as caught:
                _services.class_named("comet_ml")("project").start()
        self.assertIn("-m pip install comet-ml", caught.exception.hint)

    def test_other_names_are_not_services(self):
        self.assertIsNone(_services.class_named("tensorboard"))
        with self.assertRaisesRegex(errors.ArgumentError, "cannot import the tracker `os:Nothing`"):
            _services.class_named("os:Nothing")
        with self.assertRaisesRegex(errors.ArgumentError, "`os:PathLike` is not a subclass"):
            _services.class_named("os:PathLike")


class Module(unittest.TestCase):
    def test_is_started_by_programs_only(self):
        command = [sys.executable, "-m", "accelerate_cpp.tracker", "aim"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 2)
        self.assertIn("usage: python3 -m accelerate_cpp.tracker <name>", result.stderr)

    def test_starts_without_torch(self):
        code = "import sys, accelerate_cpp.tracker, accelerate_cpp._services; print('torch' in sys.modules)"
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        self.assertEqual(result.stdout, "False\n", result.stderr)


if __name__ == "__main__":
    unittest.main()
