#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares a Python training loop with accelerate_cpp to the same loop with Hugging Face Accelerate.

Each runs on two CPU processes; the runs alternate.

    benchmarks/compare_python.py --python <python with torch, transformers, accelerate> --build <build folder>

BERT with 2 layers of 128, batches of 8 × 64, fp32, one thread per process, torch's AdamW, linear schedule. Both start
from the same weights and use the same samples, order and dropout. Prints the median step time of each run, the ratio
of the medians over all runs, and the largest loss difference; exits 1 when a goal is missed.

By default, accelerate_cpp uses the fused AdamW on a CPU. `--fused` selects it for both libraries, so that only the
reducer and the loop differ.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from typing import Optional

LAYERS, HIDDEN, HEADS, BATCH, LENGTH = 2, 128, 2, 8, 64
GOAL, LOSS_GOAL = 0.7, 1e-5


def work(package: str, steps: int, fused: Optional[bool]) -> None:
    """One process of a run."""
    import torch
    from torch.utils.data import DataLoader, Dataset
    from transformers import BertConfig, BertForSequenceClassification, get_scheduler

    if package == "accelerate":
        from accelerate import Accelerator
        from accelerate.utils import DataLoaderConfiguration
    else:
        from accelerate_cpp import Accelerator, DataLoaderConfiguration

    torch.manual_seed(0)
    accelerator = Accelerator(
        cpu=True, dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True, data_seed=42)
    )

    class Items(Dataset):
        def __len__(self):
            return steps * BATCH * accelerator.num_processes

        def __getitem__(self, i):
            return dict(
                input_ids=torch.full((LENGTH,), i % 30000),
                attention_mask=torch.ones(LENGTH, dtype=torch.long),
                labels=torch.tensor(i % 2),
            )

    config = BertConfig(
        hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=4 * HIDDEN
    )
    model = BertForSequenceClassification(config)
    loader = DataLoader(Items(), batch_size=BATCH, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5, fused=fused)
    loader, model, optimizer = accelerator.prepare(loader, model, optimizer)
    scheduler = get_scheduler("linear", optimizer, 0, steps)
    model.train()
    times, losses, before = [], [], time.perf_counter()
    for step, batch in enumerate(loader):
        torch.manual_seed(step)  # the same dropout in both libraries
        loss = model(**batch).loss
        accelerator.backward(loss)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        times.append(time.perf_counter() - before)
        before = time.perf_counter()
    if accelerator.is_main_process:
        print("RESULT " + json.dumps({"ms": statistics.median(times[3:]) * 1e3, "losses": losses}), flush=True)


def run(package: str, options) -> dict:
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "1", "CUDA_VISIBLE_DEVICES": ""}
    script = [os.path.abspath(__file__), "--worker", package, "--steps", str(options.steps)]
    script += ["--fused"] if options.fused else []
    if package == "accelerate":
        command = [options.python, "-m", "torch.distributed.run", "--nproc_per_node", "2", *script]
    else:
        variables["PYTHONPATH"] = os.path.join(options.build, "python")
        variables["PATH"] = os.path.dirname(options.python) + os.pathsep + variables["PATH"]
        command = [os.path.join(options.build, "bin", "accelerate"), "launch", "--cpu", "--num_processes", "2", *script]
    result = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=900)
    for line in result.stdout.splitlines():
        if "RESULT " in line:
            return json.loads(line.split("RESULT ", 1)[1])
    sys.exit(f"error: {package} did not finish\n{result.stdout}{result.stderr}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--build", default="build")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--fused", action="store_true", help="use the fused AdamW in both libraries")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker, options.steps, options.fused or None)
        return 0
    options.build = os.path.abspath(options.build)
    medians = {"accelerate": [], "accelerate_cpp": []}
    difference = 0.0
    for _ in range(options.rounds):
        results = {package: run(package, options) for package in medians}
        for package, result in results.items():
            medians[package].append(result["ms"])
            print(f"{package:15s} {result['ms']:8.1f} ms per step  last loss {result['losses'][-1]:.6f}", flush=True)
        pairs = zip(results["accelerate"]["losses"], results["accelerate_cpp"]["losses"])
        difference = max(difference, *(abs(a - b) for a, b in pairs))
    ratio = statistics.median(medians["accelerate_cpp"]) / statistics.median(medians["accelerate"])
    print(f"ratio {ratio:.2f} (goal {GOAL}), largest loss difference {difference:.1e} (goal {LOSS_GOAL:.0e})")
    return 0 if ratio <= GOAL and difference <= LOSS_GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
