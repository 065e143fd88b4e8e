#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loads tokenizers that the C++ library saved, and compares ids, offsets and
texts with the original tokenizers.

    tests/parity/check_tokenizers.py <output folder of `parity_models tokenizers`>
"""

import sys
from pathlib import Path

import transformers as hf

import tokenizer_texts

FOLDERS = Path(__file__).resolve().parent / "golden/tokenizers/folders"
TEXTS = tokenizer_texts.HARD + tokenizer_texts.TRAINING


def results(folder):
    """Yields (key, value) for everything that is compared."""
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    # The class may differ: a slow class has no offsets.
    yield "kind", type(tokenizer).__name__
    yield "size", len(tokenizer)
    yield "special", {name: str(token) for name, token in
                      tokenizer.special_tokens_map.items()
                      if isinstance(token, str)}
    yield "max_length", min(tokenizer.model_max_length, 10**9)
    yield "sides", (tokenizer.padding_side, tokenizer.truncation_side)
    for text in TEXTS:
        encoding = tokenizer(text, return_offsets_mapping=tokenizer.is_fast)
        yield ("text", text), dict(encoding)
        yield ("decoded", text), tokenizer.decode(encoding["input_ids"])
    for left, right in zip(TEXTS, reversed(TEXTS)):
        pair = tokenizer(left, right, truncation=True, max_length=12)
        yield ("pair", left, right), dict(pair)


def main():
    hf.logging.set_verbosity_error()
    count = 0
    for folder in sorted(FOLDERS.iterdir()):
        expected = dict(results(folder))
        for key, value in results(Path(sys.argv[1]) / folder.name):
            if key != "kind" and value != expected[key]:
                sys.exit(f"{folder.name}: {key}: {value!r}, expected {expected[key]!r}")
        count += 1
    print(f"{count} tokenizers saved by C++: equal for {len(TEXTS)} texts each")
    sys.exit(0 if count == 6 else 1)


if __name__ == "__main__":
    main()
