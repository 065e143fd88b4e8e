#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loading here and in Python, in turns: a checkpoint of 400 MB, a
tokenizer.json of 9 MB, and a file of 1 GB against reading it.

    benchmarks/compare_loading.py build [--rounds 5] [--folder DIR]

Run it with a Python that has Transformers 5.22.2, tokenizers and torch. Times
are medians, ratios those of runs that took turns; memory is what the loading
added to the most a process has had. Fails when ours takes more than a third of
Python's time, more than 1.2 times the file in memory, or for the 1 GB more
than 1.1 times as long as reading it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from compare_tokenizers import large_file

PEAK = '''
import json, sys, time
def peak():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
'''
MODEL = PEAK + '''
import torch
from transformers import AutoModelForCausalLM, GPT2LMHeadModel
torch.set_num_threads(1)
before, start, used = peak(), time.time(), time.process_time()
model = AutoModelForCausalLM.from_pretrained(sys.argv[1])
load = time.time() - start
with torch.no_grad():
    model(input_ids=torch.zeros(1, 1, dtype=torch.long))
print(json.dumps(dict(load=load, load_and_run=time.time() - start,
                      processor=time.process_time() - used,
                      memory=peak() - before)))
'''
TOKENIZER = PEAK + '''
from tokenizers import Tokenizer
before, used = peak(), time.process_time()
tokenizer = Tokenizer.from_file(sys.argv[1])
print(json.dumps(dict(processor=time.process_time() - used,
                      memory=peak() - before)))
'''


def run(*command):
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    done = subprocess.run(list(map(str, command)), env=environment, check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=900)
    return json.loads(done.stdout.strip().splitlines()[-1])


def in_turns(ours, peer, rounds):
    """Pairs of results; who goes first changes."""
    for turn in range(rounds):
        first, second = (ours, peer) if turn % 2 == 0 else (peer, ours)
        one, other = run(*first), run(*second)
        yield (one, other) if turn % 2 == 0 else (other, one)


def compare(case, size, keys, pairs):
    """Prints the medians; returns what missed its goal."""
    missed = []
    for key in keys:
        ratio = median(ours[key] / peer[key] for ours, peer in pairs)
        print(f"{case:22} {key:12} ours {median(o[key] for o, _ in pairs):8.3f} s"
              f"   peer {median(p[key] for _, p in pairs):8.3f} s   ratio "
              f"{ratio:.3f}", flush=True)
        if ratio > 1 / 3:
            missed.append(f"{case}: {key}")
    ours, peer = (median(pair[i]["memory"] / size for pair in pairs) for i in (0, 1))
    print(f"{case:22} {'memory':12} ours {ours:8.2f} x   peer {peer:8.2f} x   "
          "of the file", flush=True)
    return missed + ([f"{case}: memory"] if ours > 1.2 else [])


def compare_model(programs, folder, rounds):
    subprocess.run([programs / "load", "make", folder, "400"], check=True)
    size = (Path(folder) / "model.safetensors").stat().st_size
    pairs = list(in_turns((programs / "load", "model", folder),
                          (sys.executable, "-c", MODEL, folder), rounds))
    return compare(f"checkpoint {size / 1e6:.0f} MB", size,
                   ("load", "load_and_run", "processor"), pairs)


def compare_tokenizer(programs, folder, rounds):
    path = large_file(Path(folder))
    size = path.stat().st_size
    pairs = list(in_turns((programs / "tokenizer", "load", path),
                          (sys.executable, "-c", TOKENIZER, path), rounds))
    return compare(f"tokenizer.json {size / 1e6:.1f} MB", size, ("processor",), pairs)


def compare_reading(programs, folder):
    subprocess.run([programs / "load", "make", folder, "1000"], check=True)
    path = Path(folder) / "model.safetensors"
    file = run(programs / "load", "file", path)
    print(f"file {path.stat().st_size / 1e6:.0f} MB, each byte seen: mapped "
          f"{file['mapped']:.3f} s   read {file['read']:.3f} s   ratio "
          f"{file['ratio']:.2f}", flush=True)
    return ["the file: against reading it"] if file["ratio"] > 1.1 else []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    programs = arguments.build / "bin" / "benchmarks"
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        missed = compare_model(programs, folder, arguments.rounds)
        missed += compare_tokenizer(programs, folder, arguments.rounds)
        missed += compare_reading(programs, folder)
    if missed:
        sys.exit("missed: " + ", ".join(missed))


if __name__ == "__main__":
    main()
