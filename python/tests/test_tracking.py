# SPDX-License-Identifier: Apache-2.0
"""Trackers: those of the C++ core, and classes written in Python."""

import gc
import glob
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

import torch

from accelerate_cpp import Accelerator, GeneralTracker, errors, register_tracker_class, tracking


class ListTracker(GeneralTracker):
    name = "list"
    requires_logging_directory = False

    def __init__(self, project=None, **options):
        super().__init__()
        self.calls = [("made", project, options)]
        self.threads = set()

    @property
    def tracker(self):
        return self.calls

    def start(self):
        self.calls.append("start")

    def store_init_configuration(self, values):
        self.calls.append(("config", values))

    def log(self, values, step=None, **kwargs):
        self.threads.add(threading.get_ident())
        self.calls.append((step, values, kwargs))

    def finish(self):
        self.calls.append("finish")


class TrackerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def lines(self) -> list:
        (path,) = glob.glob(os.path.join(self.folder, "*", "*", "metrics.jsonl"))
        with open(path) as file:
            return [json.loads(line) for line in file]


class PythonTrackers(TrackerTest):
    def test_get_flat_numbers_on_their_own_thread(self):
        tracker = ListTracker()
        accelerator = Accelerator(cpu=True, log_with=tracker)
        accelerator.init_trackers("project", config={"path": pathlib.Path("x"), "sizes": (1, 2), "none": None})
        loss = torch.tensor(0.5, requires_grad=True)
        accelerator.log({"loss": loss, "eval": {"f1": 1}, "note": "x", "ok": True}, step=2)
        accelerator.log({"n": torch.tensor(3)}, log_kwargs={"list": {"tag": "t"}, "other": {}})
        accelerator.finish_trackers()
        self.assertEqual(
            tracker.calls[1:],
            [
                "start",
                ("config", {"path": "x", "sizes": [1, 2], "none": None}),
                (2, {"loss": 0.5, "eval/f1": 1, "note": "x", "ok": True}, {}),
                (3, {"n": 3}, {"tag": "t"}),
                "finish",
            ],
        )
        self.assertNotIn(threading.get_ident(), tracker.threads)

    def test_may_be_registered_by_class(self):
        register_tracker_class(ListTracker)
        self.addCleanup(tracking._registered.clear)
        accelerator = Accelerator(cpu=True, log_with="list")
        accelerator.init_trackers("project", init_kwargs={"list": {"tags": [1]}})
        accelerator.finish_trackers()
        self.assertEqual(accelerator.get_tracker("list", unwrap=True)[0], ("made", "project", {"tags": [1]}))

        class Another(ListTracker):
            pass

        with self.assertRaisesRegex(errors.ArgumentError, "named `list` is already registered"):
            register_tracker_class(Another)

    def test_may_be_named_by_module_and_class(self):
        accelerator = Accelerator(cpu=True, log_with="test_tracking:ListTracker")
        accelerator.init_trackers("project", init_kwargs={"test_tracking:ListTracker": {"tags": [1]}})
        accelerator.finish_trackers()
        tracker = accelerator.get_tracker("test_tracking:ListTracker", unwrap=True)
        self.assertEqual(tracker[0], ("made", "project", {"tags": [1]}))

    def test_must_define_all_attributes(self):
        class Incomplete(GeneralTracker):
            name = "incomplete"

        with self.assertRaisesRegex(NotImplementedError, "does not define `requires_logging_directory`, `tracker`"):
            Incomplete()

    def test_that_fail_to_start_raise_their_own_error(self):
        class Failing(ListTracker):
            def start(self):
                raise KeyError("no account")

        accelerator = Accelerator(cpu=True, log_with=Failing())
        with self.assertRaisesRegex(KeyError, "no account"):
            accelerator.init_trackers("project")

    def test_that_raise_do_not_stop_training(self):
        code = (
            "from test_tracking import *\n"
            "class Failing(ListTracker):\n"
            "    def log(self, values, step=None):\n"
            "        raise KeyError('gone')\n"
            "accelerator = Accelerator(cpu=True, log_with=Failing())\n"
            "accelerator.init_trackers('project')\n"
            "for step in range(3): accelerator.log({'a': 1}, step=step)\n"
            "accelerator.end_training()\n"
        )
        result = self.run_code(code)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("failed to store some values"), 1, result.stderr)
        self.assertIn("KeyError: 'gone'", result.stderr)
        self.assertIn("lost up to 3 of 3 calls", result.stderr)

    def test_finish_when_the_program_ends_by_itself(self):
        code = (
            "from test_tracking import *\n"
            "class Printing(ListTracker):\n"
            "    def log(self, values, step=None): print(step, values, flush=True)\n"
            "    def finish(self): print('finished', flush=True)\n"
            "accelerator = Accelerator(cpu=True, log_with=Printing())\n"
            "accelerator.init_trackers('project')\n"
            "accelerator.log({'a': 1}, step=7)\n"
        )
        result = self.run_code(code)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "7 {'a': 1}\nfinished\n")

    def test_are_released_with_the_accelerator(self):
        tracker = ListTracker()
        accelerator = Accelerator(cpu=True, log_with=tracker)
        accelerator.init_trackers("project")
        del accelerator
        gc.collect()
        self.assertEqual(tracker.calls[-1], "finish")

    def run_code(self, code: str):
        return subprocess.run(
            [sys.executable, "-c", code],
            cwd=os.path.dirname(os.path.abspath(__file__)),
            capture_output=True,
            text=True,
            timeout=120,
        )


class NativeTrackers(TrackerTest):
    def test_write_files(self):
        accelerator = Accelerator(cpu=True, log_with="all", project_dir=self.folder)
        accelerator.init_trackers("team/project", {"lr": 0.1})
        accelerator.log({"loss": torch.tensor(0.25), "bad": float("nan")}, step=1)
        accelerator.log_images({"x": torch.rand(2, 3, 4, 5)}, step=2)
        accelerator.log_table("t", ["a", "b"], [[1, "x"]], step=3)
        accelerator.finish_trackers()
        run, config, values, images, table = self.lines()
        self.assertEqual(run["project"], "team/project")
        self.assertEqual(config["config"], {"lr": 0.1})
        self.assertEqual((values["_step"], values["loss"], values["bad"]), (1, 0.25, "NaN"))
        self.assertEqual(len(images["files"]), 2)
        self.assertEqual(table["rows"], [[1, "x"]])

    def test_accept_numpy_numbers(self):
        import numpy

        accelerator = Accelerator(cpu=True, log_with="jsonl", project_dir=self.folder)
        accelerator.init_trackers("project")
        accelerator.log({"a": numpy.float32(0.5), "b": numpy.int64(2), "c": numpy.array(1)})
        accelerator.finish_trackers()
        values = self.lines()[-1]
        self.assertEqual((values["a"], values["b"], values["c"]), (0.5, 2, 1))

    def test_reject_what_they_cannot_log(self):
        accelerator = Accelerator(cpu=True, log_with="jsonl", project_dir=self.folder)
        with self.assertRaisesRegex(errors.StateError, "while no trackers were running"):
            accelerator.log({"a": 1})
        accelerator.init_trackers("project")
        with self.assertRaisesRegex(errors.ArgumentError, "a value of type `object` as `a`"):
            accelerator.log({"a": object()})
        with self.assertRaisesRegex(errors.ArgumentError, r"shape \[2\] as `a`"):
            accelerator.log({"a": torch.ones(2)})

    def test_are_checked_by_the_constructor(self):
        with self.assertRaisesRegex(errors.ArgumentError, "unknown tracker: `tensorbord`"):
            Accelerator(cpu=True, log_with="tensorbord")
        with self.assertRaisesRegex(errors.ArgumentError, "cannot import the tracker `no_module:Class`"):
            Accelerator(cpu=True, log_with=["no_module:Class"])
        with self.assertRaisesRegex(errors.ArgumentError, "needs a folder"):
            Accelerator(cpu=True, log_with="tensorboard")
        with self.assertRaisesRegex(errors.ArgumentError, "`log_with` contains a value of type `int`"):
            Accelerator(cpu=True, log_with=3)

    def test_have_no_python_object(self):
        accelerator = Accelerator(cpu=True, log_with="jsonl", project_dir=self.folder)
        accelerator.init_trackers("project")
        self.assertEqual(accelerator.get_tracker("jsonl").name, "jsonl")
        with self.assertRaisesRegex(errors.UnsupportedError, "is implemented in C"):
            accelerator.get_tracker("jsonl", unwrap=True)
        with self.assertRaisesRegex(errors.ArgumentError, "no tracker `csv`"):
            accelerator.get_tracker("csv")

    def test_continue_after_a_checkpoint_without_duplicate_steps(self):
        def train(steps, resume):
            accelerator = Accelerator(cpu=True, log_with="jsonl", project_dir=self.folder)
            accelerator.init_trackers("project")
            checkpoint = os.path.join(self.folder, "saved")
            first = accelerator.load_state(checkpoint)["step"] if resume else 0
            model = torch.nn.Linear(1, 1)
            for step in range(2 if resume else first, steps):
                accelerator.log({"loss": model.weight.sum()}, step=step)
                if step == 1 and not resume:
                    accelerator.save_state(checkpoint)
            accelerator.finish_trackers()

        train(5, resume=False)
        train(4, resume=True)
        self.assertEqual([line["_step"] for line in self.lines() if "_type" not in line], [0, 1, 2, 3])


if __name__ == "__main__":
    unittest.main()
