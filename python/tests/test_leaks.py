# SPDX-License-Identifier: Apache-2.0
"""Nothing stays behind: 10 000 times prepare and free."""

import gc
import resource
import subprocess
import sys
import unittest
import weakref

import torch
from torch.utils.data import DataLoader, TensorDataset

from accelerate_cpp import Accelerator


def cycle(accelerator):
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    loader = DataLoader(TensorDataset(torch.zeros(4, 64)), batch_size=2)
    accelerator.prepare(model, optimizer, scheduler, loader)
    accelerator.free_memory()
    return model


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


class Leaks(unittest.TestCase):
    def test_ten_thousand_cycles_keep_the_memory_they_began_with(self):
        accelerator = Accelerator(cpu=True)
        for _ in range(500):
            cycle(accelerator)
        gc.collect()
        before = resident()
        for _ in range(10_000):
            cycle(accelerator)
        gc.collect()
        # A leaked model alone would be 160 MB.
        self.assertLess(resident() - before, 24 << 20)

    def test_a_freed_model_is_gone(self):
        accelerator = Accelerator(cpu=True)
        reference = weakref.ref(cycle(accelerator))
        gc.collect()
        self.assertIsNone(reference())

    def test_an_accelerator_is_gone(self):
        accelerator = Accelerator(cpu=True)
        accelerator.prepare(torch.nn.Linear(2, 2))
        reference = weakref.ref(accelerator)
        del accelerator
        gc.collect()
        self.assertIsNone(reference())

    def test_either_import_comes_first(self):
        for code in ("import torch, accelerate_cpp", "import accelerate_cpp, torch"):
            subprocess.run([sys.executable, "-c", code + "; accelerate_cpp.Accelerator(cpu=True)"], check=True, timeout=60)


if __name__ == "__main__":
    unittest.main()
