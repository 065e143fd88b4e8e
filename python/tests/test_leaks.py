# SPDX-License-Identifier: Apache-2.0
"""Tests for memory leaks: prepares, trains a step and frees 10 000 times."""

import gc
import resource
import subprocess
import sys
import unittest
import weakref

import torch
from torch.utils.data import DataLoader, TensorDataset

import support
from accelerate_cpp import Accelerator

# Bytes over all cycles. A leaked list per cycle would nearly reach this limit; a leaked model (16 KiB) would exceed it.
MAX_GROWTH = 2 << 20


def cycle(accelerator):
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    loader = DataLoader(TensorDataset(torch.zeros(4, 64)), batch_size=2)
    model, optimizer, scheduler, loader = accelerator.prepare(model, optimizer, scheduler, loader)
    for (x,) in loader:
        accelerator.backward(model(x).sum())
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        break
    accelerator.free_memory()
    return model


def growth(cycles: int) -> int:
    """The number of bytes by which this process grows in this many cycles."""
    # With the default unit, the scheduler would print a note in each cycle.
    accelerator = Accelerator(cpu=True, scheduler_unit="per_optimizer_step")
    for _ in range(500):
        cycle(accelerator)
    gc.collect()
    before = resident()
    for _ in range(cycles):
        cycle(accelerator)
    gc.collect()
    return resident() - before


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


class Leaks(support.ProcessTest):
    def test_ten_thousand_cycles_do_not_leak(self):
        self.assertLess(growth(10_000), MAX_GROWTH)

    def test_two_processes_do_not_leak(self):
        path = self.write("import test_leaks\nprint('grown', test_leaks.growth(3000), flush=True)")
        code, out, err = support.finish(support.start(["--num_processes", "2", path]), 600)
        self.assertEqual(code, 0, out + err)
        grown = [int(line.split("grown ")[1]) for line in out.splitlines()]
        self.assertEqual(len(grown), 2, out)
        self.assertLess(max(grown), MAX_GROWTH)

    def test_a_freed_model_is_deleted(self):
        accelerator = Accelerator(cpu=True)
        reference = weakref.ref(cycle(accelerator))
        gc.collect()
        self.assertIsNone(reference())

    def test_an_unused_accelerator_is_deleted(self):
        accelerator = Accelerator(cpu=True)
        accelerator.prepare(torch.nn.Linear(2, 2))
        reference = weakref.ref(accelerator)
        del accelerator
        gc.collect()
        self.assertIsNone(reference())

    def test_torch_and_the_package_can_be_imported_in_either_order(self):
        for code in ("import torch, accelerate_cpp", "import accelerate_cpp, torch"):
            subprocess.run([sys.executable, "-c", code + "; accelerate_cpp.Accelerator(cpu=True)"], check=True, timeout=60)


if __name__ == "__main__":
    unittest.main()
