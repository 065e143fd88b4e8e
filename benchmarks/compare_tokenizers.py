#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares our speed with Hugging Face `tokenizers` (Rust), on one thread.

    benchmarks/compare_tokenizers.py [--binary build/bin/benchmarks/tokenizer]
                                     [--folder build/tokenizers] [--mib 6]

Trains a WordPiece vocabulary of 30 000 entries and a byte-level BPE vocabulary
of 50 000 entries once, on text found on this machine and random text in several
scripts. Encodes the text with both libraries in both orders, takes the median
CPU time, and compares every id. Prints one JSON object per line: `case`, `cpp`
and `python` (MiB/s), `ratio` (how many times faster C++ is), `unit`. Fails when
ids differ or C++ is less than 8 times as fast. Needs Python `tokenizers`.
"""

import argparse
import json
import os
import random
import statistics
import struct
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

from tokenizers import (Tokenizer, decoders, models, normalizers,  # noqa: E402
                        pre_tokenizers, processors, trainers)

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ["abcdefghijklmnopqrstuvwxyz", "абвгдежзийклмнопрстуфхцчшщъыьэюя",
           "αβγδεζηθικλμνξοπρστυφχψω", "אבגדהוזחטיכלמנסעפצקרשת",
           "ابتثجحخدذرزسشصضطظعغفقكلمنهوي", "अआइईउऊएऐओऔकखगघचछजझटठडढणतथदधनपफ",
           "àâäéèêëîïôöùûüçñ", "가나다라마바사아자차카타파하거너더러머버",
           "的一是不了人我在有他这为之大来以个中上们到说国和地也子"]


def found_text(size):
    """Documentation and Python sources found on this machine."""
    texts, total = [], 0
    roots = [Path("/usr/share/doc"), Path("/usr/share/common-licenses"),
             Path(sysconfig.get_paths()["stdlib"])]
    for root in roots:
        for path in sorted(root.rglob("*")):
            if total >= size:
                return texts
            if path.suffix not in ("", ".txt", ".md", ".rst", ".py") or \
                    not path.is_file():
                continue
            try:
                text = path.read_text(encoding="utf-8")
            except (UnicodeDecodeError, OSError):
                continue
            if "\0" in text or len(text) < 200:
                continue
            texts += [text[i:i + 2000] for i in range(0, min(len(text), 60000), 2000)]
            total += min(len(text), 60000)
    return texts


def random_text(size):
    """Random words in several scripts, with the word frequencies of a language."""
    chance = random.Random(11)
    words = {letters: ["".join(chance.choices(letters, k=chance.randint(2, 9)))
                       for _ in range(3000)] for letters in SCRIPTS}
    texts, total = [], 0
    while total < size:
        letters = SCRIPTS[len(texts) % len(SCRIPTS)]
        count = 250
        picked = [words[letters][min(2999, int(chance.paretovariate(0.8)) - 1)]
                  for _ in range(count)]
        text = "".join(word + chance.choice([" ", " ", " ", " ", ", ", ". "])
                       for word in picked)
        texts.append(text)
        total += len(text.encode())
    return texts


def wordpiece():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(
        vocab_size=30000, special_tokens=special, show_progress=False)
    return tokenizer, trainer


def byte_bpe():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=50000, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    return tokenizer, trainer


def finish(name, tokenizer):
    if name == "wordpiece_30k":
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    else:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)


def trained(name, folder, texts):
    path = folder / f"{name}.json"
    if not path.exists():
        print(f"training {name}", file=sys.stderr)
        tokenizer, trainer = {"wordpiece_30k": wordpiece, "bpe_50k": byte_bpe}[name]()
        tokenizer.train_from_iterator(texts, trainer)
        finish(name, tokenizer)
        tokenizer.save(str(path))
    return path


def large_file(folder):
    """A tokenizer.json of about 9 MB, like those of large language models."""
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


def seconds_of(repeats, work):
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return statistics.median(times)


def print_result(case, cpp, python, unit, ratio):
    print(json.dumps({"case": case, "cpp": round(cpp, 4), "python": round(python, 4),
                      "ratio": round(ratio, 2), "unit": unit}), flush=True)


def compare_encoding(binary, name, path, texts, texts_file, folder):
    tokenizer = Tokenizer.from_file(str(path))
    expected = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    ids_file = folder / "ids.bin"
    run_cpp(binary, "encode", path, texts_file, "--repeats", 1, "--ids", ids_file)
    if read_ids(ids_file) != expected:
        sys.exit(f"{name}: the ids differ from Hugging Face tokenizers")
    size = sum(len(text.encode()) for text in texts) / 2**20
    kinds = {
        "": (tokenizer.encode_batch_fast, []),
        "_with_offsets": (tokenizer.encode_batch, ["--offsets"]),
    }
    missed = []
    for suffix, (encode, flags) in kinds.items():
        cpp_times, python_times = [], []
        for cpp_first in (True, False):
            for turn in (0, 1):
                if (turn == 0) == cpp_first:
                    cpp_times.append(run_cpp(binary, "encode", path, texts_file,
                                             "--repeats", 7, *flags)["seconds"])
                else:
                    python_times.append(seconds_of(3, lambda: encode(texts)))
        cpp, python = statistics.median(cpp_times), statistics.median(python_times)
        print_result(f"{name}{suffix}", size / cpp, size / python, "MiB/s", python / cpp)
        if suffix == "" and python / cpp < 8:
            missed.append(name)
    return missed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", default=ROOT / "build/bin/benchmarks/tokenizer")
    parser.add_argument("--folder", type=Path, default=ROOT / "build/tokenizers")
    parser.add_argument("--mib", type=float, default=6)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    size = int(arguments.mib * 2**20)
    texts = found_text(size * 3 // 4) + random_text(size // 4)
    random.Random(5).shuffle(texts)
    texts_file = arguments.folder / "texts.bin"
    texts_file.write_bytes(b"".join(text.encode() + b"\0" for text in texts))
    missed = []
    for name in ("wordpiece_30k", "bpe_50k"):
        path = trained(name, arguments.folder, texts)
        missed += compare_encoding(arguments.binary, name, path, texts,
                                   texts_file, arguments.folder)
    if missed:
        sys.exit("less than 8 times as fast: " + ", ".join(missed))


if __name__ == "__main__":
    main()
