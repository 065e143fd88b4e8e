#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the speed of tokenizers with Hugging Face `tokenizers` (Rust), on
one thread.

    benchmarks/compare_tokenizers.py [--binary build/bin/benchmarks/tokenizer]
                                     [--folder build/tokenizers] [--mib 3]
                                     [--offsets] [case…]

For each case of tokenizer_cases.py, trains the vocabulary once, and encodes two
texts that it was not trained on with both libraries: English documentation and
source code (`english`), and translations in all languages with words in nine
scripts (`languages`). Compares every id, then measures both libraries in both
orders. Prints one JSON object per line: `cpp` and `python` (MiB/s of CPU time,
median), `ratio` (how many times faster C++ is), `first_ratio` (the same for the
first call, with empty caches), `goal`. Fails when ids differ or a ratio is less
than its goal. `--offsets` measures calls that also return offsets, which have no
goal. Needs Python `tokenizers`.
"""

import argparse
import functools
import json
import os
import random
import statistics
import struct
import subprocess
import sys
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: E402

import tokenizer_cases  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 2
TRAINING_MIB = 20


def large_file(folder):
    """Returns a tokenizer.json of about 9 MB, as large language models
    have."""
    path = folder / "large.json"
    if path.exists():
        return path
    chance = random.Random(3)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: i for i, token in enumerate(alphabet)}
    tokens, merges = list(alphabet), []
    while len(tokens) < 150000:
        left, right = chance.choice(tokens), chance.choice(tokens)
        if len(left) + len(right) <= 12 and left + right not in vocab:
            vocab[left + right] = len(tokens)
            tokens.append(left + right)
            merges.append((left, right))
    tokenizer = Tokenizer(models.BPE(vocab, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    data = json.loads(tokenizer.to_str())
    data["model"]["merges"] = [" ".join(pair) for pair in data["model"]["merges"]]
    path.write_text(json.dumps(data, ensure_ascii=False, indent=2))
    return path


@functools.cache
def all_texts(mib):
    """Returns the texts to train on, and the texts to encode by name. Half of
    the texts of each kind are for training."""
    size = int(mib * 2**20)
    english = tokenizer_cases.english_texts(TRAINING_MIB * 2**20 + size * 2)
    other = (tokenizer_cases.translated_texts(size * 3) +
             tokenizer_cases.random_texts(size))
    for texts in (english, other):
        random.Random(5).shuffle(texts)
    training = english[1::2] + other[1::2][:len(english) // 18]
    return training, {"english": first_bytes(english[::2], size),
                      "languages": first_bytes(other[::2], size)}


def first_bytes(texts, size):
    total = 0
    for i, text in enumerate(texts):
        total += len(text.encode())
        if total >= size:
            return texts[:i + 1]
    return texts


def run_cpp(binary, *arguments):
    result = subprocess.run([binary, *map(str, arguments)], check=True,
                            capture_output=True, text=True)
    return json.loads(result.stdout)


def read_ids(path):
    data = path.read_bytes()
    rows, at = [], 0
    while at < len(data):
        (size,) = struct.unpack_from("<q", data, at)
        rows.append(list(struct.unpack_from(f"<{size}q", data, at + 8)))
        at += 8 + 8 * size
    return rows


def run_python(path, encode, texts, repeats):
    """Returns the CPU time of the first call, and the median of the other
    calls."""
    tokenizer = Tokenizer.from_file(str(path))
    times = []
    for _ in range(repeats + 1):
        begin = time.process_time()
        getattr(tokenizer, encode)(texts)
        times.append(time.process_time() - begin)
    return {"first_seconds": times[0], "seconds": statistics.median(times[1:])}


def check_ids(binary, name, path, texts, texts_file, folder):
    tokenizer = Tokenizer.from_file(str(path))
    ids_file = folder / "ids.bin"
    run_cpp(binary, "encode", path, texts_file, "--repeats", 1, "--ids", ids_file)
    pairs = zip(texts, read_ids(ids_file), tokenizer.encode_batch_fast(texts), strict=True)
    for text, ids, expected in pairs:
        if ids != expected.ids:
            sys.exit(f"{name}: the ids differ from Hugging Face tokenizers: {text!r}")


def measure(binary, path, texts, texts_file, offsets):
    """Returns the medians of both libraries over several rounds."""
    results = {"cpp": [], "python": []}
    for i in range(ROUNDS):
        for side in ("cpp", "python") if i % 2 == 0 else ("python", "cpp"):
            if side == "cpp":
                result = run_cpp(binary, "encode", path, texts_file, "--repeats", 7,
                                 *(["--offsets"] if offsets else []))
            else:
                encode = "encode_batch" if offsets else "encode_batch_fast"
                result = run_python(path, encode, texts, 2)
            results[side].append(result)
    return {side: {key: statistics.median(result[key] for result in rounds)
                   for key in ("first_seconds", "seconds")}
            for side, rounds in results.items()}


def compare(arguments, case, kind, path, texts, texts_file):
    name = f"{case}, {kind}"
    check_ids(arguments.binary, name, path, texts, texts_file, arguments.folder)
    times = measure(arguments.binary, path, texts, texts_file, arguments.offsets)
    cpp, python = times["cpp"], times["python"]
    mib = sum(len(text.encode()) for text in texts) / 2**20
    goal = None if arguments.offsets else tokenizer_cases.CASES[case][1]
    ratio = python["seconds"] / cpp["seconds"]
    print(json.dumps({
        "case": case, "texts": kind, "cpp": round(mib / cpp["seconds"], 1),
        "python": round(mib / python["seconds"], 2), "ratio": round(ratio, 1),
        "first_ratio": round(python["first_seconds"] / cpp["first_seconds"], 1),
        "goal": goal}), flush=True)
    return goal is None or ratio >= goal


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", default=ROOT / "build/bin/benchmarks/tokenizer")
    parser.add_argument("--folder", type=Path, default=ROOT / "build/tokenizers")
    parser.add_argument("--mib", type=float, default=3)
    parser.add_argument("--offsets", action="store_true")
    parser.add_argument("cases", nargs="*", default=list(tokenizer_cases.CASES))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    training, kinds = all_texts(arguments.mib)
    missed = []
    for case in arguments.cases:
        path = tokenizer_cases.tokenizer_file(case, arguments.folder, training)
        for kind, texts in kinds.items():
            texts_file = arguments.folder / f"{kind}.bin"
            texts_file.write_bytes(b"".join(text.encode() + b"\0" for text in texts))
            if not compare(arguments, case, kind, path, texts, texts_file):
                missed.append(f"{case} ({kind})")
    if missed:
        sys.exit("slower than the goal: " + ", ".join(missed))


if __name__ == "__main__":
    main()
