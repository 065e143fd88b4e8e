# SPDX-License-Identifier: Apache-2.0
"""A checkpoint is the same in both languages."""

import os
import tempfile
import unittest

import support
import torch
from accelerate_cpp import Accelerator


# The first launch of a source precompiles the headers, too.
COMPILES = 900


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
    def test_python_goes_on_in_cpp_and_back(self):
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
            code, out, err = support.finish(support.start([source, saved, later]), COMPILES)
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


if __name__ == "__main__":
    unittest.main()
