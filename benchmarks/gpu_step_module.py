#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The plain module of gpu_step with Hugging Face Accelerate.

Prints a JSON line for each mode.

    benchmarks/gpu_step_module.py [eager] [compile] [reduce-overhead]
"""

import json
import sys
import time

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState

BATCH, TOKENS, WIDTH, WARM_UP, STEPS = 8, 128, 768, 5, 60


class PlainModule(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(WIDTH, 12, 3072, dropout=0.1, activation="gelu")
        self.encoder = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
        self.head = torch.nn.Linear(WIDTH, 2)

    def forward(self, x):
        return self.head(self.encoder(x)[0])


def measure(mode):
    AcceleratorState._reset_state(True)
    torch.manual_seed(0)
    accelerator = Accelerator(mixed_precision="bf16")
    model = PlainModule()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    if mode != "eager":
        model = torch.compile(model, mode=None if mode == "compile" else mode)
    model, optimizer = accelerator.prepare(model, optimizer)
    model.train()
    x = torch.randn(TOKENS, BATCH, WIDTH, device=accelerator.device)
    labels = torch.randint(0, 2, (BATCH,), device=accelerator.device)

    def step():
        torch.compiler.cudagraph_mark_step_begin()
        loss = torch.nn.functional.cross_entropy(model(x), labels)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    start = time.time()
    for _ in range(WARM_UP):
        step()
    torch.cuda.synchronize()
    warm_up = time.time() - start
    torch.cuda.reset_peak_memory_stats()
    start = time.time()
    for _ in range(STEPS):
        loss = step()
    torch.cuda.synchronize()
    seconds = (time.time() - start) / STEPS
    print(json.dumps(dict(
        work=f"module B{BATCH} T{TOKENS}", mode=mode, ms=round(seconds * 1e3, 3),
        units_per_s=round(BATCH / seconds), warm_up_s=round(warm_up, 1),
        peak_gb=round(torch.cuda.max_memory_allocated() / 1e9, 2), loss=float(loss))), flush=True)


def main():
    for mode in [m for m in ("eager", "compile", "reduce-overhead") if m in sys.argv] or ["eager"]:
        measure(mode)


if __name__ == "__main__":
    main()
