#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the time of a training step with Hugging Face Transformers.

    benchmarks/compare_models.py build [--python <interpreter>] [--rounds 3]

C++ and Python run alternately on the same machine; ratios are medians of the
ratios of adjacent runs. The interpreter needs Accelerate, Transformers 5.22.2
and torch.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

STEP = '''
import sys, time, json, resource
start = time.time()
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset
from transformers import BertConfig, BertForSequenceClassification, get_scheduler
layers, hidden, heads, batch, length, steps = map(int, sys.argv[1:7])
torch.manual_seed(0)
accelerator = Accelerator(cpu=True)

class Items(Dataset):
    def __len__(self):
        return steps * batch
    def __getitem__(self, i):
        return dict(input_ids=torch.full((length,), i % 30000),
                    attention_mask=torch.ones(length, dtype=torch.long),
                    labels=torch.tensor(i % 2))

model = BertForSequenceClassification(BertConfig(
    hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
    intermediate_size=4 * hidden))
loader = DataLoader(Items(), batch_size=batch, shuffle=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5)
loader, model, optimizer = accelerator.prepare(loader, model, optimizer)
scheduler = get_scheduler("linear", optimizer, 0, steps)
model.train()
times, first, before = [], None, time.time()
for inputs in loader:
    accelerator.backward(model(**inputs).loss)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
    first = first or time.time() - start
    times.append(time.time() - before)
    before = time.time()
times = sorted(times[3:])
print(json.dumps(dict(step=times[len(times) // 2], first=first, memory=
    resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)))
'''


def run(*command):
    environment = dict(os.environ, OMP_NUM_THREADS="1", ACCELERATE_USE_CPU="1")
    result = subprocess.run(list(map(str, command)), env=environment, check=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, timeout=900)
    return json.loads(result.stdout.strip().splitlines()[-1])


def compare(name, cpp_command, python_command, keys, rounds):
    """Runs C++ and Python alternately; prints the medians and the median of the ratios."""
    pairs = [(run(*cpp_command), run(*python_command)) for _ in range(rounds)]
    for key in keys:
        cpp_time = median(cpp[key] for cpp, _ in pairs)
        python_time = median(python[key] for _, python in pairs)
        ratio = median(cpp[key] / python[key] for cpp, python in pairs)
        print(f"{name:32} {key:14} C++ {cpp_time * 1e3:9.1f} ms   "
              f"Python {python_time * 1e3:9.1f} ms   ratio {ratio:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    arguments = parser.parse_args()
    programs = arguments.build / "bin" / "benchmarks"
    for sizes in ((2, 128, 2, 8, 64), (4, 256, 4, 8, 128)):
        name = "BERT L{} H{} heads {} B{} T{}".format(*sizes)
        sizes = (*sizes, arguments.steps)
        compare(name, (programs / "model_step", *sizes),
                (arguments.python, "-c", STEP, *sizes), ("step", "first"),
                arguments.rounds)


if __name__ == "__main__":
    main()
