# SPDX-License-Identifier: Apache-2.0
"""Several processes, started as a user would start them."""

import os
import signal
import subprocess
import sys
import unittest

import support
from accelerate_cpp import launch


class Tutorial(support.ProcessTest):
    def accuracy(self, arguments, starter=None):
        process = (starter or support.start)(arguments)
        code, out, err = support.finish(process)
        self.assertEqual(code, 0, out + err)
        self.assertIn("on 101 samples", out)
        return float(out.split()[1])

    def test_the_script_trains_in_one_and_in_two_processes(self):
        script = os.path.join(support.EXAMPLES, "base.py")
        for processes in ("1", "2"):
            self.assertGreater(self.accuracy(["--num_processes", processes, script]), 0.9)

    def test_the_launch_module_works_like_the_command(self):
        def start(arguments):
            command = [sys.executable, "-m", "accelerate_cpp.launch", "--cpu", *arguments]
            variables = {**launch.environment(), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            return subprocess.Popen(
                command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )

        self.assertGreater(self.accuracy([os.path.join(support.EXAMPLES, "base.py")], start), 0.9)


class Training(support.ProcessTest):
    def test_two_processes_train_like_one_with_batches_of_the_same_total_size(self):
        code = """
            import sys, torch
            from torch.utils.data import DataLoader, TensorDataset
            from accelerate_cpp import Accelerator
            accelerator = Accelerator()
            torch.manual_seed(accelerator.process_index)  # models differ until they are prepared
            generator = torch.Generator().manual_seed(0)
            x = torch.randn(32, 3, generator=generator)
            loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8 // accelerator.num_processes)
            torch.manual_seed(accelerator.process_index)
            model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4, affine=False, momentum=0.0),
                                        torch.nn.Linear(4, 1)).eval()
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
            loader, model, optimizer = accelerator.prepare(loader, model, optimizer)
            for _ in range(2):
                for a, b in loader:
                    accelerator.backward(torch.nn.functional.mse_loss(model(a), b))
                    optimizer.step()
                    optimizer.zero_grad()
            accelerator.print(" ".join(f"{v:.5f}" for p in model.parameters() for v in p.flatten().tolist()))
        """
        one = [float(word) for word in self.run_on(1, code).split()]
        two = [float(word) for word in self.run_on(2, code).split()]
        self.assertEqual(len(one), len(two))
        for a, b in zip(one, two):
            self.assertAlmostEqual(a, b, places=4)

    def test_sync_batch_norm_uses_the_rows_of_all_processes(self):
        for conversion in (
            "model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)",
            "model = accelerator.convert_sync_batchnorm(model)",
        ):
            with self.subTest(conversion):
                self.check_sync_batch_norm(conversion)

    def check_sync_batch_norm(self, conversion):
        code = """
            import copy, io, torch
            from torch.utils.data import DataLoader, TensorDataset
            from accelerate_cpp import Accelerator
            accelerator = Accelerator()
            x = torch.arange(32.0).view(32, 1).mul(torch.tensor([[0.3, 0.7, 1.1]])).sin() + torch.arange(32.0).view(32, 1) / 8
            loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8 // accelerator.num_processes)
            torch.manual_seed(1)
            model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Tanh(),
                                        torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4, affine=False), torch.nn.Linear(4, 1))
            CONVERSION
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
            loader, model, optimizer = accelerator.prepare(loader, model, optimizer)
            for a, b in loader:
                accelerator.backward(torch.nn.functional.mse_loss(model(a), b))
                optimizer.step()
                optimizer.zero_grad()
            values = [*model.parameters(), model[1].running_mean, model[1].running_var]
            accelerator.print(" ".join(f"{v:.6f}" for p in values for v in p.flatten().tolist()))
            state = {name: value.clone() for name, value in model.state_dict().items()}
            file = io.BytesIO()
            torch.save(model.state_dict(), file)
            file.seek(0)
            loaded = torch.load(file)
            assert all(torch.equal(loaded[name], value) for name, value in state.items())
            copy.deepcopy(model)
        """.replace("CONVERSION", conversion)
        one = [float(word) for word in self.run_on(1, code).split()]
        two = [float(word) for word in self.run_on(2, code).split()]
        self.assertEqual(len(one), len(two))
        for a, b in zip(one, two):
            self.assertAlmostEqual(a, b, places=5)

    def test_metrics_see_each_sample_once(self):
        out = self.run_on(
            2,
            """
            import torch
            from torch.utils.data import DataLoader, IterableDataset, TensorDataset
            from accelerate_cpp import Accelerator, DataLoaderConfiguration

            class Stream(IterableDataset):
                def __iter__(self):
                    return iter(range(11))

            accelerator = Accelerator()
            for workers in (0, 1):
                loader = accelerator.prepare(DataLoader(TensorDataset(torch.arange(11)), batch_size=2, num_workers=workers))
                seen = [v for (batch,) in loader for v in accelerator.gather_for_metrics(batch).tolist()]
                assert sorted(seen) == list(range(11)), seen
                words = [w for (batch,) in loader for w in accelerator.gather_for_metrics([str(v) for v in batch.tolist()])]
                assert sorted(words, key=int) == [str(i) for i in range(11)], words
            loader = accelerator.prepare(DataLoader(Stream(), batch_size=2))
            seen = [v for batch in loader for v in accelerator.gather_for_metrics(batch).tolist()]
            assert sorted(seen) == list(range(11)), seen
            accelerator = Accelerator(dataloader_config=DataLoaderConfiguration(dispatch_batches=True))
            loader = accelerator.prepare(DataLoader([{"a": i, "b": float(i)} for i in range(11)], batch_size=2))
            seen = [v for batch in loader for v in accelerator.gather_for_metrics(batch)["a"].tolist()]
            assert sorted(seen) == list(range(11)), seen
            accelerator.print("fine")
            """,
        )
        self.assertEqual(out.strip(), "fine")

    def test_every_process_reads_a_stream_that_is_not_dispatched(self):
        for dispatch, readers in ((False, [0, 1]), (None, [0]), (True, [0])):
            out = self.run_on(
                2,
                f"""
                import torch
                from torch.utils.data import DataLoader, IterableDataset
                from accelerate_cpp import Accelerator, DataLoaderConfiguration

                class Stream(IterableDataset):
                    read = 0

                    def __iter__(self):
                        for value in range(11):
                            self.read += 1
                            yield value

                accelerator = Accelerator(dataloader_config=DataLoaderConfiguration(dispatch_batches={dispatch}))
                stream = Stream()
                loader = accelerator.prepare(DataLoader(stream, batch_size=2))
                seen = [v for batch in loader for v in accelerator.gather_for_metrics(batch).tolist()]
                assert sorted(seen) == list(range(11)), seen
                reads = accelerator.gather(torch.tensor([stream.read])).tolist()
                rest = [v for batch in accelerator.skip_first_batches(loader, 1) for v in accelerator.gather_for_metrics(batch).tolist()]
                assert sorted(rest) == list(range(4, 11)), rest
                accelerator.print([rank for rank, read in enumerate(reads) if read > 0], type(loader).__name__)
                """,
            )
            name = "IterableDataLoaderShard" if dispatch is False else "DataLoaderDispatcher"
            self.assertEqual(out.strip(), f"{readers} {name}", f"dispatch_batches={dispatch}")

    def test_all_processes_use_the_custom_sampler_of_the_first_process(self):
        out = self.run_on(
            2,
            """
            import torch
            from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler
            from accelerate_cpp import Accelerator
            accelerator = Accelerator()
            torch.manual_seed(100 + accelerator.process_index)
            sampler = WeightedRandomSampler([1.0] * 16, 16, replacement=False)
            loader = accelerator.prepare(DataLoader(TensorDataset(torch.arange(16)), batch_size=4, sampler=sampler))
            seen = [v for (batch,) in loader for v in accelerator.gather_for_metrics(batch).tolist()]
            assert sorted(seen) == list(range(16)), seen
            accelerator.print("fine")
            """,
        )
        self.assertEqual(out.strip(), "fine")

    def test_objects_and_order(self):
        out = self.run_on(
            2,
            """
            import torch
            from accelerate_cpp import PartialState
            from accelerate_cpp.utils import broadcast_object_list, gather, gather_object, reduce
            state = PartialState()
            assert gather_object([{"rank": state.process_index}]) == [{"rank": 0}, {"rank": 1}]
            assert broadcast_object_list([state.process_index, "x"]) == [0, "x"]
            nest = {"a": [torch.tensor([state.process_index])]}
            assert gather(nest)["a"][0].tolist() == [0, 1]
            assert reduce(nest, "sum")["a"][0].item() == 1
            with state.split_between_processes(list(range(5)), apply_padding=True) as part:
                assert part == ([0, 1, 2] if state.is_main_process else [3, 4, 4]), part
            with state.main_process_first():
                print("here", state.process_index, flush=True)
            """,
        )
        self.assertEqual([line.split("here ")[1] for line in out.splitlines()], ["0", "1"])


class Checkpoints(support.ProcessTest):
    CODE = """
        import sys, torch
        from torch.utils.data import DataLoader, TensorDataset
        from accelerate_cpp import Accelerator
        mode, folder = sys.argv[1:]
        accelerator = Accelerator()
        torch.manual_seed(0)
        x = torch.randn(48, 3)
        loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8 // accelerator.num_processes, shuffle=True)
        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        loader, model, optimizer = accelerator.prepare(loader, model, optimizer)
        if mode == "resume":
            accelerator.load_state(folder)
        for a, b in loader:
            accelerator.backward(torch.nn.functional.mse_loss(model(a), b))
            optimizer.step()
            optimizer.zero_grad()
            if mode == "save" and accelerator.step == 3:
                accelerator.save_state(folder)
                break
        accelerator.print(accelerator.step, *(f"{v:.4f}" for p in model.parameters() for v in p.flatten().tolist()))
    """

    def test_a_run_resumes_with_a_different_number_of_processes(self):
        uninterrupted = self.run_on(2, self.CODE, "uninterrupted", "-")
        for before, after in ((2, 2), (2, 1), (1, 2)):
            folder = os.path.join(self.folder, f"from_{before}_{after}")
            self.run_on(before, self.CODE, "save", folder)
            resumed = self.run_on(after, self.CODE, "resume", folder)
            if (before, after) == (2, 2):
                self.assertEqual(resumed, uninterrupted)
            for a, b in zip(uninterrupted.split(), resumed.split()):
                self.assertAlmostEqual(float(a), float(b), places=3)


class Faults(support.ProcessTest):
    def test_an_exception_on_one_process_reaches_the_other(self):
        path = self.write(
            """
            import torch
            from accelerate_cpp import Accelerator, errors

            class Broken(torch.autograd.Function):
                @staticmethod
                def forward(context, x):
                    return x.clone()
                @staticmethod
                def backward(context, gradient):
                    raise ValueError("bad batch")

            accelerator = Accelerator()
            model = accelerator.prepare(torch.nn.Linear(2, 2))
            loss = model(torch.ones(1, 2)).sum()
            if accelerator.process_index == 1:
                loss = Broken.apply(loss)
            try:
                accelerator.backward(loss)
            except (ValueError, errors.RankError) as error:
                print(type(error).__name__, flush=True)
            """
        )
        code, out, err = support.finish(support.start(["--num_processes", "2", path]))
        self.assertEqual(code, 0, out + err)
        self.assertEqual(sorted(word for word in out.split() if not word.startswith("[")), ["RankError", "ValueError"])

    # Process 0 writes a file; process 1 joins once the file exists. A thread of process 0 keeps a core busy from right
    # before the wait until process 0 is waiting.
    WAITS = """
        import os, signal, sys, threading, time
        from accelerate_cpp import PartialState
        state = PartialState()
        flag = sys.argv[1]

        def busy():
            started.wait(30)
            end = time.monotonic() + 0.3
            while time.monotonic() < end:
                pass

        def wait_for_flag():
            limit = time.monotonic() + 60
            while not os.path.exists(flag) and time.monotonic() < limit:
                time.sleep(0.01)

        started = threading.Event()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore SIGINT by default
    """

    def test_ctrl_c_interrupts_a_wait_for_another_process(self):
        code = self.WAITS + """
        if state.process_index == 0:
            threading.Thread(target=lambda: (busy(), os.kill(os.getpid(), signal.SIGINT))).start()
            start = time.monotonic()
            try:
                started.set()
                state.wait_for_everyone()
            except KeyboardInterrupt:
                print("interrupted", time.monotonic() - start < 10, flush=True)
            open(flag, "w").close()
        else:
            wait_for_flag()
        os._exit(0)  # The process group is unusable now, which does not matter here.
        """
        self.assertIn("interrupted True", self.run_on(2, code, os.path.join(self.folder, "flag")))

    def test_other_threads_run_while_a_process_waits(self):
        code = self.WAITS + """
        if state.process_index == 0:
            threading.Thread(target=lambda: (busy(), open(flag, "w").close())).start()
            started.set()
        else:
            wait_for_flag()
        state.wait_for_everyone()
        print("joined", os.path.exists(flag), flush=True)
        """
        self.assertEqual(self.run_on(2, code, os.path.join(self.folder, "flag")).count("joined True"), 2)

    def test_killing_one_process_stops_the_others(self):
        path = self.write(
            """
            import os, signal
            from accelerate_cpp import PartialState
            state = PartialState()
            if state.process_index == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            state.wait_for_everyone()
            """
        )
        code, _, err = support.finish(support.start(["--num_processes", "2", path]))
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        self.assertIn("rank 1", err)


if __name__ == "__main__":
    unittest.main()
