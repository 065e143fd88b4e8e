#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our checkpoints and the peer's in turns: a model of 400 MB with the state of
AdamW (amsgrad), 1.6 GB in all.

    benchmarks/compare_checkpoint.py build [--python <interpreter>]
        [--folder DIR] [--rounds 3] [--json]

Times count as ratios of runs that took turns on one machine. The interpreter
needs Accelerate and torch.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

PEER = '''
import json, os, sys, time
import torch
from accelerate import Accelerator
what, folder, layers = sys.argv[1], sys.argv[2], int(sys.argv[3])
accelerator = Accelerator(cpu=True)
model = torch.nn.Sequential(*(torch.nn.Linear(2000, 2000) for _ in range(layers)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, amsgrad=True)
model, optimizer = accelerator.prepare(model, optimizer)
folder = os.path.join(folder, "peer")
def step():
    accelerator.backward(model(torch.ones(8, 2000)).pow(2).mean())
    optimizer.step()
    optimizer.zero_grad()

if what == "save":
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
print(json.dumps({what: took, "processor": cpu,
                  "and_step": time.time() - start,
                  "processor_and_step": time.process_time() - used}))
'''


def run(*command):
    done = subprocess.run(list(map(str, command)), check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=dict(os.environ, ACCELERATE_USE_CPU="1"),
                          timeout=900)
    return json.loads(done.stdout.strip().splitlines()[-1])


def in_turns(ours, peer, rounds):
    """Pairs of results; who goes first changes."""
    for turn in range(rounds):
        first, second = (ours, peer) if turn % 2 == 0 else (peer, ours)
        one, other = run(*first), run(*second)
        yield (one, other) if turn % 2 == 0 else (other, one)


def tell(case, key, pairs, as_json):
    result = {"case": case,
              "ours": median(ours[key] for ours, _ in pairs),
              "peer": median(peer[key] for _, peer in pairs),
              "ratio": median(ours[key] / peer[key] for ours, peer in pairs)}
    if as_json:
        print(json.dumps(result), flush=True)
    else:
        print("{case:24} ours {ours:7.2f} s   peer {peer:7.2f} s   "
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
        for what in ("save", "load"):
            pairs = list(in_turns(
                (program, what, f"folder={folder}"),
                (arguments.python, "-c", PEER, what, folder, 25),
                arguments.rounds))
            tell(f"{what} of 1.6 GB", what, pairs, arguments.json)
            # What a busy machine does not change.
            tell(f"{what}, processor time", "processor", pairs, arguments.json)
            if what == "load":
                # The first step may have to do what a load put off.
                tell("load and a step", "and_step", pairs, arguments.json)
                tell("the same, processor time", "processor_and_step", pairs,
                     arguments.json)


if __name__ == "__main__":
    main()
