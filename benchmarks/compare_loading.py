#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares loading with Hugging Face: a 400 MB checkpoint and a 9 MB
tokenizer.json. Also compares mapping a 1 GB file with reading it.

    benchmarks/compare_loading.py build [--rounds 5] [--folder DIR]

Run this script with a Python that has Transformers 5.22.2, tokenizers and
torch. C++ and Python run alternately. Times are medians, ratios are medians of
the ratios of adjacent runs, and memory is the growth of the peak memory during
loading. Fails if accelerate-cpp takes more than a third of Python's time, if
it needs more memory than 1.2 times the file size, or if mapping the 1 GB file
takes more than 1.1 times as long as reading it.
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
    result = subprocess.run(list(map(str, command)), env=environment, check=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, timeout=900)
    return json.loads(result.stdout.strip().splitlines()[-1])


def run_alternately(cpp_command, python_command, rounds):
    """Yields pairs of results (C++, Python). The order alternates."""
    for turn in range(rounds):
        if turn % 2 == 0:
            cpp = run(*cpp_command)
            yield cpp, run(*python_command)
        else:
            python = run(*python_command)
            yield run(*cpp_command), python


def compare(case, size, keys, pairs):
    """Prints the medians. Returns the goals that were missed."""
    missed = []
    for key in keys:
        ratio = median(cpp[key] / python[key] for cpp, python in pairs)
        print(f"{case:22} {key:12} C++ {median(cpp[key] for cpp, _ in pairs):8.3f} s"
              f"   Python {median(python[key] for _, python in pairs):8.3f} s   ratio "
              f"{ratio:.3f}", flush=True)
        if ratio > 1 / 3:
            missed.append(f"{case}: {key}")
    cpp, python = (median(pair[i]["memory"] / size for pair in pairs) for i in (0, 1))
    print(f"{case:22} {'memory':12} C++ {cpp:8.2f} x   Python {python:8.2f} x   "
          "the file size", flush=True)
    return missed + ([f"{case}: memory"] if cpp > 1.2 else [])


def compare_model(programs, folder, rounds):
    subprocess.run([programs / "load", "make", folder, "400"], check=True)
    size = (Path(folder) / "model.safetensors").stat().st_size
    pairs = list(run_alternately((programs / "load", "model", folder),
                          (sys.executable, "-c", MODEL, folder), rounds))
    return compare(f"checkpoint {size / 1e6:.0f} MB", size,
                   ("load", "load_and_run", "processor"), pairs)


def compare_tokenizer(programs, folder, rounds):
    path = large_file(Path(folder))
    size = path.stat().st_size
    pairs = list(run_alternately((programs / "tokenizer", "load", path),
                          (sys.executable, "-c", TOKENIZER, path), rounds))
    return compare(f"tokenizer.json {size / 1e6:.1f} MB", size, ("processor",), pairs)


def compare_reading(programs, folder):
    subprocess.run([programs / "load", "make", folder, "1000"], check=True)
    path = Path(folder) / "model.safetensors"
    file = run(programs / "load", "file", path)
    print(f"file {path.stat().st_size / 1e6:.0f} MB, all bytes accessed: mapped "
          f"{file['mapped']:.3f} s   read {file['read']:.3f} s   ratio "
          f"{file['ratio']:.2f}", flush=True)
    return ["file: mapping compared with reading"] if file["ratio"] > 1.1 else []


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
        sys.exit("missed goals: " + ", ".join(missed))


if __name__ == "__main__":
    main()
