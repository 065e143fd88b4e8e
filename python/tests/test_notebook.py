# SPDX-License-Identifier: Apache-2.0
"""`notebook_launcher` from an interactive Python session, where functions are defined in `__main__`."""

import contextlib
import io
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
from unittest import mock
from xml.dom import minidom

import torch

import accelerate_cpp
from accelerate_cpp import Accelerator, WorkerError, debug_launcher, errors, launch, launchers, notebook_launcher

LIMIT = 60


def train(epochs, offset=0):
    accelerator = Accelerator(cpu=True)
    model = accelerator.prepare(torch.nn.Linear(2, 1))
    for _ in range(epochs):
        accelerator.backward(model(torch.ones(1, 2)).sum())
    print(f"trained on {accelerator.num_processes}")
    return {"rank": accelerator.process_index, "processes": accelerator.num_processes, "offset": offset}


def fail_on_one(folder=None):
    accelerator = Accelerator(cpu=True)
    note_pid(folder, accelerator.process_index)
    accelerator.wait_for_everyone()
    if accelerator.process_index == 1:
        raise LookupError("no such sample")
    accelerator.wait_for_everyone()


def note_pid(folder, rank):
    if folder is not None:
        with open(os.path.join(folder, str(rank)), "w") as file:
            file.write(str(os.getpid()))


def die(folder):
    state = accelerate_cpp.PartialState(cpu=True)
    note_pid(folder, state.process_index)
    state.wait_for_everyone()
    if state.process_index == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    state.wait_for_everyone()


def describe_environment():
    accelerator = Accelerator(cpu=True)
    model = accelerator.prepare(torch.nn.Sequential(torch.nn.Linear(2, 2)))
    seen = []
    model[0].register_forward_hook(lambda module, args, result: seen.append(str(result.dtype)))
    model(torch.ones(1, 2))
    return {
        "precision": accelerator.mixed_precision,
        "dtype": seen[0],
        "port": os.environ.get("MASTER_PORT"),
        "ranks": accelerate_cpp.utils.gather_object([(accelerator.process_index, accelerator.local_process_index)]),
        "nodes": accelerator.state.num_nodes,
    }


def fail_once(folder):
    flag = os.path.join(folder, "failed")
    if not os.path.exists(flag):
        open(flag, "w").close()
        raise OSError("for the first time")
    return "second time"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def launched(*args, **kwargs):
    """Returns the result and the output of the cell."""
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


def exited_within(pids, seconds) -> bool:
    limit = time.monotonic() + seconds
    while any(map(alive, pids)):
        if time.monotonic() > limit:
            return False
        time.sleep(0.02)
    return True


class Launching(unittest.TestCase):
    def test_returns_the_result_of_the_first_process(self):
        result, shown = launched(train, (2,), num_processes=2)
        self.assertEqual(result, {"rank": 0, "processes": 2, "offset": 0})
        self.assertIn("Launching training on 2 processes (as requested)", shown)
        self.assertEqual(shown.count("trained on 2"), 2)

    def test_prints_the_chosen_number_of_processes(self):
        _, shown = launched(train, (1,))
        self.assertRegex(shown, r"Launching training on \d+ process(es)? \((on the CPU, \d+ cores?|.*GPU.*)\)")

    def test_works_after_an_exception_and_after_an_accelerator_was_created(self):
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
        self.assertIn("The Accelerator in this notebook is not used", shown)

    def test_the_workers_have_a_key_for_their_objects(self):
        def send_objects():
            from accelerate_cpp import _objects, operations, state

            return _objects._key() is not None, operations.gather_object([state.PartialState().process_index])

        self.assertEqual(launched(send_objects, num_processes=2)[0], (True, [0, 1]))

    def test_launches_functions_without_a_module(self):
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

            def print_and_wait(path, limit):
                import os
                import time

                print("first", flush=True)
                end = time.monotonic() + limit
                while not os.path.exists(path) and time.monotonic() < end:
                    time.sleep(0.01)
                return os.path.exists(path)

            with contextlib.redirect_stdout(Watcher()):
                self.assertTrue(notebook_launcher(print_and_wait, (flag, LIMIT), num_processes=1))


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
                        bar.update(1 - bar.n)  # Drawn at most ten times per second.
                        time.sleep(0.02)
                state.wait_for_everyone()
                bar.close()
                return os.path.exists(path)

            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(Watcher()) as err:
                self.assertTrue(notebook_launcher(work, (flag, LIMIT), num_processes=2))
            self.assertNotIn("\x1b", err.getvalue())


class Options(unittest.TestCase):
    """The options of the caller reach the workers."""

    def test_precision_and_port(self):
        port = str(free_port())
        result, _ = launched(describe_environment, num_processes=2, mixed_precision="bf16", use_port=port)
        self.assertEqual((result["precision"], result["dtype"]), ("bf16", "torch.bfloat16"))
        self.assertEqual((result["port"], result["nodes"]), (port, 1))

    def test_restarts_a_failed_run(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(launched(fail_once, (folder,), num_processes=1, max_restarts=1)[0], "second time")
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(WorkerError, "for the first time"):
                launched(fail_once, (folder,), num_processes=1)

    def test_num_processes_is_per_machine(self):
        options = dict(num_processes=2, num_nodes=2, use_port=str(free_port()))
        code = (
            "import sys; sys.path.insert(0, sys.argv[1]); import test_notebook\n"
            f"test_notebook.notebook_launcher(test_notebook.describe_environment, node_rank=1, **{options!r})"
        )
        second = subprocess.Popen(
            [sys.executable, "-c", code, os.path.dirname(os.path.abspath(__file__))],
            env={**launch.environment(), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.addCleanup(second.stdout.close)
        self.addCleanup(second.wait)
        self.addCleanup(second.kill)
        result, shown = launched(describe_environment, node_rank=0, **options)
        self.assertEqual((result["nodes"], result["ranks"]), (2, [(0, 0), (1, 1), (2, 0), (3, 1)]))
        self.assertIn("Launching training on 2 processes (as requested, on each of 2 machines)", shown)
        output = second.communicate(timeout=LIMIT)[0]
        self.assertEqual(second.returncode, 0, output)


class Gpus(unittest.TestCase):
    """Pretends that torch sees one GPU."""

    def setUp(self):
        patch = mock.patch.object(torch.cuda, "device_count", return_value=1)
        patch.start()
        self.addCleanup(patch.stop)

    def test_more_processes_than_gpus_train_on_the_cpu_with_a_note(self):
        result, shown = launched(train, (1,), num_processes=2)
        self.assertEqual(result["processes"], 2)
        self.assertIn("(on the CPU: 2 processes were requested, but this machine has 1 GPU)", shown)

    def test_fp16_needs_one_gpu_per_process(self):
        with self.assertRaisesRegex(errors.UnsupportedError, "one GPU per process.* 2 processes and 1 GPU"):
            notebook_launcher(train, (1,), num_processes=2, mixed_precision="fp16")

    def test_debug_launcher_needs_no_gpu(self):
        def where():
            state = accelerate_cpp.PartialState()
            return state.num_processes, str(state.device), os.environ["CUDA_VISIBLE_DEVICES"]

        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(debug_launcher(where, num_processes=2), (2, "cpu", ""))


class Failures(unittest.TestCase):
    def report(self, folder, rank, caused_by_other_rank, text, seconds):
        path = os.path.join(folder, f"error_{rank}")
        with open(path, "wb") as file:
            pickle.dump((caused_by_other_rank, text, "trace"), file)
        os.utime(path, (seconds, seconds))

    def test_reports_the_root_cause_instead_of_the_first_report(self):
        with tempfile.TemporaryDirectory() as folder:
            self.report(folder, 0, True, "RankError: rank 1 failed", 1)
            self.report(folder, 1, False, "ValueError: bad batch", 2)
            with self.assertRaises(WorkerError) as caught:
                launchers._raise_failure(1, "", folder, 2)
        self.assertEqual((caught.exception.rank, caught.exception.traceback), (1, "trace"))

    def test_workers_report_whether_another_rank_caused_the_error(self):
        from accelerate_cpp import _worker

        def raise_rank_error():
            raise errors.RankError("rank 1 failed")

        for function, expected in ((raise_rank_error, True), (lambda: 1 / 0, False)):
            with tempfile.TemporaryDirectory() as folder:
                import cloudpickle

                with open(os.path.join(folder, "function"), "wb") as file:
                    cloudpickle.dump((function, ()), file)
                with contextlib.redirect_stderr(io.StringIO()), mock.patch.dict(os.environ, {"RANK": "3"}):
                    self.assertEqual(_worker.main(folder), 1)
                with open(os.path.join(folder, "error_3"), "rb") as file:
                    self.assertEqual(pickle.load(file)[0], expected)

    def test_the_exception_can_be_pickled(self):
        error = pickle.loads(pickle.dumps(WorkerError("process 1 raised", "look", rank=1, traceback="line 3")))
        self.assertEqual((error.message, error.hint, error.rank, error.traceback), ("process 1 raised", "look", 1, "line 3"))


class BadInput(unittest.TestCase):
    def test_reports_what_cannot_be_pickled(self):
        lock = threading.Lock()
        with self.assertRaisesRegex(errors.ArgumentError, "cannot be sent to other processes.*lock"):
            notebook_launcher(lambda: lock, num_processes=1)

    def test_arguments_are_checked(self):
        for arguments, text in (
            (dict(function=3), "got a value of type `int`"),
            (dict(function=train, args=3), "`args` has type `int`"),
            (dict(function=train, num_processes=0), "num_processes is 0"),
            (dict(function=train, mixed_precision="int8"), "mixed_precision is `int8`, but must be one of no, fp16, bf16"),
            (dict(function=train, rdzv_id="x"), "does not support `rdzv_id`"),
            (dict(function=train, node_rank=1), "node_rank is 1, but num_nodes is 1"),
            (dict(function=train, num_nodes=0), "num_nodes is 0"),
            (dict(function=train, rdzv_backend="c10d"), "a single machine needs no rendezvous"),
            (dict(function=train, rdzv_conf={"a": 1}), "a single machine needs no rendezvous"),
        ):
            with self.assertRaisesRegex(errors.Error, text):
                notebook_launcher(**arguments)

    @unittest.skipIf(torch.cuda.is_available(), "there is a GPU")
    def test_fp16_needs_a_gpu(self):
        with self.assertRaisesRegex(errors.UnsupportedError, "`fp16` needs a GPU"):
            notebook_launcher(train, mixed_precision="fp16")


class Termination(unittest.TestCase):
    """A separate kernel process that launches workers and is then interrupted or killed."""

    KERNEL = """
import os, signal, sys, time
from accelerate_cpp import notebook_launcher

signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore SIGINT by default

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

    def test_interrupting_the_cell_stops_all_workers(self):
        with tempfile.TemporaryDirectory() as folder:
            kernel, workers = self.start(folder)
            kernel.send_signal(signal.SIGINT)
            self.assertTrue(exited_within(workers, 10))
            self.assertIn("interrupted", kernel.communicate(timeout=LIMIT)[0])

    def test_killing_the_kernel_stops_all_workers(self):
        with tempfile.TemporaryDirectory() as folder:
            kernel, workers = self.start(folder)
            kernel.kill()
            self.assertTrue(exited_within(workers, 5))

    def failure_of(self, function):
        """Launches a function that fails; checks that all workers exit and returns the exception."""
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(WorkerError) as caught:
                launched(function, (folder,), num_processes=2)
            workers = [int(read(os.path.join(folder, rank))) for rank in "01"]
        self.assertTrue(exited_within(workers, 5))
        return caught.exception

    def test_killing_a_worker_fails_the_cell_and_stops_all_workers(self):
        self.assertIn("rank 1 failed first", str(self.failure_of(die)))

    def test_an_exception_stops_all_workers(self):
        self.assertEqual(self.failure_of(fail_on_one).rank, 1)


class Progress(unittest.TestCase):
    def test_the_plot_has_loss_learning_rate_and_throughput(self):
        from accelerate_cpp import progress

        picture = progress.svg(
            dict(points=[(1, 2.0, 0.1), (2, 1.0, 0.05), (3, float("nan"), None)], step=3, total=10, rate=12.34, unit="samples/s")
        )
        for part in ("<svg", ">loss<", ">1<", ">learning rate<", ">0.05<", ">samples/s<", ">12.3<", ">step 3 of 10<", ">30 %<"):
            self.assertIn(part, picture)
        self.assertEqual(picture.count("<polyline"), 3)  # loss, its average, learning rate
        self.assertNotIn("nan", picture)
        minidom.parseString(picture)

    def test_plots_with_few_or_invalid_points(self):
        from accelerate_cpp import progress

        for points in ([], [(1, 3.0, None)], [(1, None, 0.0)], [(1, 2.0, 0.1), (2, 2.0, 0.1)], [(1, float("inf"), 0.1)]):
            for total in (None, 0, 2):
                picture = progress.svg(dict(points=points, step=2, total=total, rate=0.0, unit="steps/s"))
                self.assertNotIn("inf", picture)
                minidom.parseString(picture)

    def test_the_axis_has_round_numbers(self):
        from accelerate_cpp.picture import ticks

        self.assertEqual(ticks(0, 1000, 6), [0, 200, 400, 600, 800, 1000])
        self.assertEqual([round(tick, 9) for tick in ticks(0.13, 0.71)], [0.2, 0.4, 0.6])
        self.assertEqual(ticks(3, 3), [3])

    def test_the_plot_is_drawn_at_most_twice_per_second(self):
        from accelerate_cpp import progress

        now, shown = [0.0], []
        sink = types.SimpleNamespace(show=lambda values: shown.append((now[0], values["step"], len(values["points"]))))
        clock = types.SimpleNamespace(monotonic=lambda: now[0])
        with (
            contextlib.redirect_stderr(io.StringIO()),
            mock.patch.object(progress, "time", clock),
            mock.patch.object(progress.TrainingProgress, "_choose_sink", staticmethod(lambda: sink)),
        ):
            with progress.TrainingProgress(100) as bar:
                for step in range(100):
                    now[0] += 0.0625
                    bar.update(loss=torch.tensor(1.0 / (step + 1)))
        times = [time for time, _, _ in shown]
        self.assertEqual(times[:3], [0.5, 1.0, 1.5])
        self.assertEqual(len(times), 13)  # twelve in 6.25 seconds, and one at the end
        self.assertEqual(shown[-1], (6.25, 100, 100))

    def test_a_cell_has_one_plot_that_is_updated(self):
        from accelerate_cpp import progress

        values = dict(points=[(1, 2.0, 0.1)], step=1, total=2, rate=1.0, unit="steps/s")
        with mock.patch("IPython.display.display") as display:
            picture = progress.Picture()
            picture.show(values)
            picture.show({**values, "step": 2})
        (html,), options = display.call_args
        self.assertEqual(display.call_count, 1)
        self.assertEqual(options, {"display_id": True})
        self.assertIn("step 1 of 2", html.data)
        ((later,), _), = display.return_value.update.call_args_list
        self.assertIn("step 2 of 2", later.data)

    def test_the_cell_shows_each_progress_report_once(self):
        from accelerate_cpp import progress

        shown = []
        with tempfile.TemporaryDirectory() as folder:
            reader = progress.ProgressReader(folder)
            reader._picture = types.SimpleNamespace(show=shown.append)
            reader.poll()
            progress._ProgressWriter(folder).show({"step": 1})
            reader.poll()
            reader.poll()
            self.assertEqual(shown, [{"step": 1}])
            progress._ProgressWriter(folder).show({"step": 2})
            reader.poll()
        self.assertEqual(shown, [{"step": 1}, {"step": 2}])

    def test_a_terminal_only_shows_the_bar(self):
        with contextlib.redirect_stderr(io.StringIO()) as err:
            with accelerate_cpp.TrainingProgress(4) as bar:
                for _ in range(4):
                    bar.update(loss=torch.ones(()), lr=0.1, samples=2)
        self.assertIn("4/4", err.getvalue())
        self.assertNotIn("svg", err.getvalue())

    def test_the_first_worker_reports_progress_to_the_cell(self):
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
