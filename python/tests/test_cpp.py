# SPDX-License-Identifier: Apache-2.0
"""Checkpoints are interchangeable between Python and C++."""

import os
import tempfile
import unittest

import support
import torch
from accelerate_cpp import Accelerator, utils


# Seconds. The first launch of a source file also precompiles the headers.
COMPILE_LIMIT = 900


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.last = torch.nn.Linear(4, 1)
        self.register_buffer("scratch", torch.zeros(1), persistent=False)

    def forward(self, x):
        return self.last(self.norm(self.first(x)).tanh())


def step(accelerator, model, optimizer):
    accelerator.backward(model(torch.ones(4, 3)).pow(2).sum())
    optimizer.step()


def sums(model):
    return {name: tensor.sum().item() for name, tensor in model.named_parameters()}


class Checkpoints(unittest.TestCase):
    def test_cpp_resumes_a_python_run_and_python_resumes_it_again(self):
        with tempfile.TemporaryDirectory() as folder:
            saved, later = os.path.join(folder, "saved"), os.path.join(folder, "later")
            accelerator = Accelerator(cpu=True)
            torch.manual_seed(0)
            model = Model()
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
            accelerator.prepare(model, optimizer)
            for _ in range(3):
                step(accelerator, model, optimizer)
                optimizer.zero_grad()
            accelerator.save_state(saved)
            step(accelerator, model, optimizer)
            optimizer.zero_grad()

            source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "resume.cpp")
            code, out, err = support.finish(support.start([source, saved, later]), COMPILE_LIMIT)
            self.assertEqual(code, 0, out + err)
            lines = out.splitlines()
            self.assertEqual(lines[0], "3")
            for line in lines[1:]:
                name, value = line.split()
                self.assertAlmostEqual(float(value), sums(model)[name], places=5)

            expected = sums(model)
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.zero_()
            report = accelerator.load_state(later)
            self.assertEqual(report["step"], 4)
            for name, value in sums(model).items():
                self.assertAlmostEqual(value, expected[name], places=5)
            self.assertEqual(int(optimizer.state[model.first.weight]["step"]), 4)
            self.assertEqual(optimizer.param_groups[0]["lr"], 0.01)


class Loops(support.ProcessTest):
    """A run of two processes with loader and scheduler, resumed in the middle of an epoch."""

    CODE = """
        import sys, torch
        from torch.utils.data import DataLoader, TensorDataset
        from accelerate_cpp import Accelerator
        mode, folder, target = sys.argv[1:]
        accelerator = Accelerator(cpu=True, scheduler_unit="per_optimizer_step")
        torch.manual_seed(0)
        samples = torch.tensor([[i / 48, i * 7 % 48 / 48, i * 11 % 48 / 48] for i in range(48)])
        loader = DataLoader(TensorDataset(samples), batch_size=8 // accelerator.num_processes, shuffle=True)
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
        loader, model, optimizer, scheduler = accelerator.prepare(loader, model, optimizer, scheduler)
        if mode == "resume":
            accelerator.load_state(folder)
        for (x,) in loader:
            accelerator.backward(model(x).pow(2).mean())
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            if mode == "begin" and accelerator.step == 3:
                accelerator.save_state(folder)
        accelerator.save_state(target)
        accelerator.print(accelerator.step, optimizer.param_groups[0]["lr"], scheduler.get_last_lr()[0])
    """

    def path(self, name):
        return os.path.join(self.folder, name)

    def assert_same_run(self, expected, actual):
        """Compares the weights and the optimizer states of two checkpoints."""
        for name in ("model.safetensors", "optimizer.safetensors"):
            expected_tensors, tensors = (utils.load(os.path.join(self.path(run), name)) for run in (expected, actual))
            self.assertEqual(sorted(expected_tensors), sorted(tensors))
            for key in expected_tensors:
                torch.testing.assert_close(tensors[key], expected_tensors[key], rtol=1e-5, atol=1e-6)

    def test_cpp_resumes_a_python_run_in_the_middle_of_an_epoch_and_python_resumes_it_again(self):
        began = self.run_on(2, self.CODE, "begin", self.path("saved"), self.path("expected"))
        # An epoch has 6 steps; the learning rate is halved after steps 2, 4 and 6.
        self.assertEqual([float(word) for word in began.split()], [6, 0.05 / 8, 0.05 / 8])
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "resume_loop.cpp")
        for processes in ("2", "1"):
            later = "later_" + processes
            arguments = ["--num_processes", processes, source, self.path("saved"), self.path(later)]
            code, out, err = support.finish(support.start(arguments), COMPILE_LIMIT)
            self.assertEqual(code, 0, out + err)
            self.assertEqual(len(out.split()), 3, out)  # the three batches that Python did not process
            self.assert_same_run("expected", later)
        # Both train one more epoch.
        for run in ("expected", "later_2"):
            ended = self.run_on(2, self.CODE, "resume", self.path(run), self.path(run + "_on"))
            self.assertEqual([float(word) for word in ended.split()], [12, 0.05 / 64, 0.05 / 64])
        self.assert_same_run("expected_on", "later_2_on")


if __name__ == "__main__":
    unittest.main()
