#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares checkpoints with the checkpoints of Hugging Face Accelerate: a 400
MB model with the state of AdamW (amsgrad), 1.6 GB in total.

    benchmarks/compare_checkpoint.py build [--python <interpreter>]
        [--folder DIR] [--rounds 3] [--json]

Both programs run alternately on one machine; only the ratio of their times is
meaningful. The interpreter needs Hugging Face Accelerate and torch.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

HF_PROGRAM = '''
import json, os, sys, time
import torch
from accelerate import Accelerator
operation, folder, layers = sys.argv[1], sys.argv[2], int(sys.argv[3])
accelerator = Accelerator(cpu=True)
model = torch.nn.Sequential(*(torch.nn.Linear(2000, 2000) for _ in range(layers)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, amsgrad=True)
model, optimizer = accelerator.prepare(model, optimizer)
folder = os.path.join(folder, "hugging_face")
def step():
    accelerator.backward(model(torch.ones(8, 2000)).pow(2).mean())
    optimizer.step()
    optimizer.zero_grad()

if operation == "save":
    step()
    os.sync()
    start, used = time.time(), time.process_time()
    accelerator.save_state(folder)
    os.sync()
else:
    start, used = time.time(), time.process_time()
    accelerator.load_state(folder)
took, cpu = time.time() - start, time.process_time() - used
step()
print(json.dumps({operation: took, "processor": cpu,
                  "and_step": time.time() - start,
                  "processor_and_step": time.process_time() - used}))
'''


def run(*command):
    done = subprocess.run(list(map(str, command)), check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=dict(os.environ, ACCELERATE_USE_CPU="1"),
                          timeout=900)
    return json.loads(done.stdout.strip().splitlines()[-1])


def run_alternately(cpp, python, rounds):
    """Yields pairs of results; the two programs take turns running first."""
    for turn in range(rounds):
        first, second = (cpp, python) if turn % 2 == 0 else (python, cpp)
        results = run(*first), run(*second)
        yield results if turn % 2 == 0 else results[::-1]


def report(case, key, pairs, as_json):
    result = {"case": case,
              "cpp": median(cpp[key] for cpp, _ in pairs),
              "python": median(python[key] for _, python in pairs),
              "ratio": median(cpp[key] / python[key] for cpp, python in pairs)}
    if as_json:
        print(json.dumps(result), flush=True)
    else:
        print("{case:24} C++ {cpp:7.2f} s   Python {python:7.2f} s   "
              "ratio {ratio:.2f}".format(**result), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    program = arguments.build / "bin" / "benchmarks" / "checkpoint"
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for operation in ("save", "load"):
            pairs = list(run_alternately(
                (program, operation, f"folder={folder}"),
                (arguments.python, "-c", HF_PROGRAM, operation, folder, 25),
                arguments.rounds))
            report(f"{operation} of 1.6 GB", operation, pairs, arguments.json)
            # CPU time does not depend on how busy the machine is.
            report(f"{operation}, CPU time", "processor", pairs,
                   arguments.json)
            if operation == "load":
                # A load may defer work to the first step.
                report("load and a step", "and_step", pairs, arguments.json)
                report("the same, CPU time", "processor_and_step", pairs,
                       arguments.json)


if __name__ == "__main__":
    main()
