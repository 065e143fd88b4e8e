# SPDX-License-Identifier: Apache-2.0
"""Tests that need a GPU; they are skipped without one."""

import contextlib
import io
import unittest

import torch
from torch.utils.data import DataLoader, TensorDataset

from accelerate_cpp import Accelerator, GradScalerKwargs, notebook_launcher


def train(precision):
    accelerator = Accelerator(mixed_precision=precision)
    torch.manual_seed(0)
    x = torch.randn(64, 8)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=16, shuffle=True)
    loader, model, optimizer = accelerator.prepare(loader, model, optimizer)
    losses = []
    for _ in range(20):
        for a, b in loader:
            loss = torch.nn.functional.mse_loss(model(a), b)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
    return str(accelerator.device), losses[0].item(), losses[-1].item()


@unittest.skipUnless(torch.cuda.is_available(), "no GPU")
class Gpu(unittest.TestCase):
    def test_trains_in_each_precision(self):
        for precision in ("no", "bf16", "fp16"):
            device, first, last = train(precision)
            self.assertEqual(device, "cuda:0")
            self.assertLess(last, first / 5, precision)

    def test_an_overflow_skips_the_step(self):
        accelerator = Accelerator(mixed_precision="fp16", kwargs_handlers=[GradScalerKwargs(init_scale=2.0**30)])
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        model, optimizer = accelerator.prepare(model, optimizer)
        before = model.weight.detach().clone()
        accelerator.backward(model(torch.full((1, 4), 100.0, device=accelerator.device)).sum())
        optimizer.step()
        self.assertTrue(accelerator.optimizer_step_was_skipped)
        self.assertTrue(torch.equal(model.weight, before))

    def test_captures_a_function_in_a_cuda_graph(self):
        accelerator = Accelerator()
        model = accelerator.prepare(torch.nn.Linear(4, 4))

        def evaluate(x):
            with torch.no_grad():
                return {"y": model(x["x"])}

        step = accelerator.graph(evaluate)
        for value in range(6):
            x = torch.full((2, 4), float(value), device=accelerator.device)
            torch.testing.assert_close(step({"x": x})["y"], evaluate({"x": x})["y"])
        self.assertEqual((step.num_graphs, step.why_not), (1, ""))
        self.assertGreaterEqual(step.num_replays, 3)

    def test_launches_from_a_notebook_that_has_used_cuda(self):
        torch.ones(1, device="cuda")
        for _ in range(2):
            with contextlib.redirect_stdout(io.StringIO()) as out:
                device, first, last = notebook_launcher(train, ("bf16",))
            self.assertEqual(device, "cuda:0")
            self.assertLess(last, first / 5)
            self.assertIn("GPU", out.getvalue())


if __name__ == "__main__":
    unittest.main()
