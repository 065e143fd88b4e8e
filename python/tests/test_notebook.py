# SPDX-License-Identifier: Apache-2.0
"""`notebook_launcher` from an interactive Python, where functions live in `__main__`."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import torch

import accelerate_cpp
from accelerate_cpp import Accelerator, WorkerError, errors, launch, notebook_launcher

LIMIT = 60


def train(epochs, offset=0):
    accelerator = Accelerator(cpu=True)
    model = accelerator.prepare(torch.nn.Linear(2, 1))
    for _ in range(epochs):
        accelerator.backward(model(torch.ones(1, 2)).sum())
    print(f"trained on {accelerator.num_processes}")
    return {"rank": accelerator.process_index, "processes": accelerator.num_processes, "offset": offset}


def fail_on_one():
    if Accelerator(cpu=True).process_index == 1:
        raise LookupError("no such sample")


def launched(*args, **kwargs):
    """The result and what the cell shows."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        result = notebook_launcher(*args, **kwargs)
    return result, out.getvalue() + err.getvalue()


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def read(path: str) -> str:
    with open(path) as file:
        return file.read()


def gone_within(pids, seconds) -> bool:
    limit = time.monotonic() + seconds
    while any(map(alive, pids)):
        if time.monotonic() > limit:
            return False
        time.sleep(0.02)
    return True


class Launching(unittest.TestCase):
    def test_returns_what_the_first_process_returns(self):
        result, shown = launched(train, (2,), num_processes=2)
        self.assertEqual(result, {"rank": 0, "processes": 2, "offset": 0})
        self.assertIn("Launching training on 2 processes (as asked for)", shown)
        self.assertEqual(shown.count("trained on 2"), 2)

    def test_says_what_it_chose(self):
        _, shown = launched(train, (1,))
        self.assertRegex(shown, r"Launching training on \d+ process(es)? \((CPU, \d+ cores|.*GPU.*)\)")

    def test_works_again_after_an_exception_and_beside_an_accelerator(self):
        Accelerator(cpu=True)
        for _ in range(2):
            with self.assertRaises(WorkerError) as caught:
                launched(fail_on_one, num_processes=2)
            self.assertEqual(caught.exception.rank, 1)
            self.assertIn("process 1 of 2 raised LookupError: no such sample", str(caught.exception))
            self.assertIn("in fail_on_one", caught.exception.traceback)
            self.assertNotIn("_worker.py", caught.exception.traceback)
        result, shown = launched(train, (1, 5), num_processes=1)
        self.assertEqual(result["offset"], 5)
        self.assertIn("The Accelerator of this notebook stays out of it", shown)

    def test_functions_without_a_module_travel(self):
        factor = 3
        result, _ = launched(lambda x: x * factor, (14,), num_processes=1)
        self.assertEqual(result, 42)

    def test_output_is_live(self):
        with tempfile.TemporaryDirectory() as folder:
            flag = os.path.join(folder, "flag")

            class Watcher(io.StringIO):
                def write(self, text):
                    if "first" in text:
                        open(flag, "w").close()
                    return super().write(text)

            def talk(path, limit):
                import os
                import time

                print("first", flush=True)
                end = time.monotonic() + limit
                while not os.path.exists(path) and time.monotonic() < end:
                    time.sleep(0.01)
                return os.path.exists(path)

            with contextlib.redirect_stdout(Watcher()):
                self.assertTrue(notebook_launcher(talk, (flag, LIMIT), num_processes=1))


    def test_the_bar_of_the_first_process_moves_in_the_cell(self):
        with tempfile.TemporaryDirectory() as folder:
            flag = os.path.join(folder, "flag")

            class Watcher(io.StringIO):
                def write(self, text):
                    if "1/2" in text:
                        open(flag, "w").close()
                    return super().write(text)

            def work(path, limit):
                import os
                import time

                from accelerate_cpp import PartialState, tqdm

                state = PartialState(cpu=True)
                bar = tqdm(total=2)
                if state.is_main_process:
                    end = time.monotonic() + limit
                    while not os.path.exists(path) and time.monotonic() < end:
                        bar.update(1 - bar.n)  # Drawn ten times a second at most.
                        time.sleep(0.02)
                state.wait_for_everyone()
                bar.close()
                return os.path.exists(path)

            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(Watcher()) as err:
                self.assertTrue(notebook_launcher(work, (flag, LIMIT), num_processes=2))
            self.assertNotIn("\x1b", err.getvalue())


class BadInput(unittest.TestCase):
    def test_what_does_not_pickle_is_named(self):
        lock = threading.Lock()
        with self.assertRaisesRegex(errors.ArgumentError, "cannot be handed to other processes.*lock"):
            notebook_launcher(lambda: lock, num_processes=1)

    def test_arguments_are_checked(self):
        for arguments, text in (
            (dict(function=3), "got a `int`"),
            (dict(function=train, args=3), "`args` is a `int`"),
            (dict(function=train, num_processes=0), "num_processes is 0"),
            (dict(function=train, mixed_precision="int8"), "mixed_precision is `int8`"),
            (dict(function=train, rdzv_id="x"), "`rdzv_id` has no counterpart"),
            (dict(function=train, node_rank=1), "node_rank is 1, and num_nodes is 1"),
            (dict(function=train, num_nodes=0), "num_nodes is 0"),
            (dict(function=train, rdzv_backend="c10d"), "a single machine meets nobody"),
            (dict(function=train, rdzv_conf={"a": 1}), "a single machine meets nobody"),
        ):
            with self.assertRaisesRegex(errors.Error, text):
                notebook_launcher(**arguments)

    @unittest.skipIf(torch.cuda.is_available(), "there is a GPU")
    def test_a_gpu_that_is_not_there(self):
        with self.assertRaisesRegex(errors.UnsupportedError, "`fp16` needs a GPU"):
            notebook_launcher(train, mixed_precision="fp16")


class Ends(unittest.TestCase):
    """A kernel of its own that launches, and is then interrupted or killed."""

    KERNEL = """
import os, signal, sys, time
from accelerate_cpp import notebook_launcher

signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in the background

def train(folder):
    import os, time
    rank = os.environ["RANK"]
    with open(os.path.join(folder, f"pid_{rank}.part"), "w") as file:
        file.write(str(os.getpid()))
    os.rename(os.path.join(folder, f"pid_{rank}.part"), os.path.join(folder, f"pid_{rank}"))
    time.sleep(300)

try:
    notebook_launcher(train, (sys.argv[1],), num_processes=2)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""

    def start(self, folder):
        variables = {**launch.environment(), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        kernel = subprocess.Popen(
            [sys.executable, "-c", self.KERNEL, folder], env=variables, stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(kernel.stdout.close)
        self.addCleanup(kernel.wait)
        self.addCleanup(kernel.kill)
        limit = time.monotonic() + LIMIT
        paths = [os.path.join(folder, f"pid_{rank}") for rank in (0, 1)]
        while not all(map(os.path.exists, paths)):
            self.assertLess(time.monotonic(), limit, "the workers did not start")
            self.assertIsNone(kernel.poll())
            time.sleep(0.02)
        return kernel, [int(read(path)) for path in paths]

    def test_interrupting_the_cell_ends_all_workers(self):
        with tempfile.TemporaryDirectory() as folder:
            kernel, workers = self.start(folder)
            kernel.send_signal(signal.SIGINT)
            self.assertTrue(gone_within(workers, 10))
            self.assertIn("interrupted", kernel.communicate(timeout=LIMIT)[0])

    def test_a_kernel_that_is_killed_takes_its_workers_along(self):
        with tempfile.TemporaryDirectory() as folder:
            kernel, workers = self.start(folder)
            kernel.kill()
            self.assertTrue(gone_within(workers, 5))

    def test_a_worker_that_is_killed_fails_the_cell_once(self):
        def die():
            import os
            import signal

            from accelerate_cpp import PartialState

            state = PartialState()
            if state.process_index == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            state.wait_for_everyone()

        with self.assertRaises(WorkerError) as caught:
            launched(die, num_processes=2)
        self.assertIn("rank 1 failed first", str(caught.exception))


class Progress(unittest.TestCase):
    def test_the_picture_has_loss_rate_and_throughput(self):
        from accelerate_cpp import progress

        picture = progress.svg(
            dict(points=[(1, 2.0, 0.1), (2, 1.0, 0.05), (3, float("nan"), None)], step=3, total=10, rate=12.34, unit="samples/s")
        )
        for part in ("<svg", "loss 1", "lr 0.05", "12.3 samples/s", "step 10", "polyline"):
            self.assertIn(part, picture)
        self.assertNotIn("nan", picture)

    def test_a_terminal_gets_the_bar_alone(self):
        with contextlib.redirect_stderr(io.StringIO()) as err:
            with accelerate_cpp.TrainingProgress(4) as bar:
                for _ in range(4):
                    bar.update(loss=torch.ones(()), lr=0.1, samples=2)
        self.assertIn("4/4", err.getvalue())
        self.assertNotIn("svg", err.getvalue())

    def test_the_first_worker_tells_the_cell(self):
        def work():
            from accelerate_cpp import PartialState, TrainingProgress

            state = PartialState(cpu=True)
            with TrainingProgress(3) as bar:
                for step in range(3):
                    bar.update(loss=torch.tensor(1.0 / (step + 1)), lr=0.1, samples=8)
            if not state.is_main_process:
                return None
            import json
            import os

            path = os.path.join(os.environ["ACCELERATE_NOTEBOOK_FOLDER"], "progress")
            with open(path) as file:
                return json.load(file)

        result, _ = launched(work, num_processes=2)
        self.assertEqual(result["step"], 3)
        self.assertEqual([round(loss, 3) for _, loss, _ in result["points"]], [1.0, 0.5, 0.333])
        self.assertEqual(result["unit"], "samples/s")

    def test_a_curve_stays_small(self):
        from accelerate_cpp.progress import _Curve

        curve = _Curve(None)
        for step in range(5000):
            curve.add([(step, 1.0, None)], step, 1.0, "steps/s")
        points = curve.values()["points"]
        self.assertLessEqual(len(points), _Curve.LIMIT)
        self.assertEqual((points[0][0], points[-1][0]), (0, 4999))


if __name__ == "__main__":
    unittest.main()
