#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/parity/golden/tokenizers/long.json: digests of the ids and
offsets of Hugging Face `tokenizers` for texts of 1 MB without a space.

    tests/parity/make_long_texts.py     (after make_tokenizers.py;
                                         tokenizers 0.23.3)
"""

import hashlib
import json
from array import array
from pathlib import Path

import tokenizers
from tokenizers import Tokenizer

OUT = Path(__file__).resolve().parent / "golden/tokenizers"
NAMES = ["added_tokens", "bert", "gpt2", "llama2_new", "llama3", "plain_bpe",
         "precompiled", "qwen2", "roberta", "unigram", "word_level"]
SIZE = 1 << 20


def letters():
    """Returns pseudo-random letters; golden_long_test.cpp generates the same
    letters."""
    text, state = [], 1
    for _ in range(SIZE):
        state = (state * 1103515245 + 12345) % 2**31
        text.append("abcdefghijklmnopqrstuvwxyz"[(state >> 16) % 26])
    return "".join(text)


def digest(numbers):
    return hashlib.sha256(array("q", numbers).tobytes()).hexdigest()


def main():
    texts = {"one letter": "a" * SIZE,
             "one ideograph": "中" * (SIZE // 3 + 1),
             "letters": letters()}
    golden = {"tokenizers": tokenizers.__version__}
    for name in NAMES:
        tokenizer = Tokenizer.from_file(str(OUT / f"{name}.json"))
        golden[name] = {}
        for label, text in texts.items():
            encoding = tokenizer.encode(text)
            offsets = [offset for pair in encoding.offsets for offset in pair]
            golden[name][label] = {"size": len(encoding.ids),
                                   "ids": digest(encoding.ids),
                                   "offsets": digest(offsets)}
    (OUT / "long.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
