#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes golden/collators.json: batches of the collators in Hugging Face
Transformers.

    tests/parity/make_collators.py      (Transformers 5.22.2, torch 2.11.0)
"""

import json
import tempfile
from pathlib import Path

import torch
from transformers import (BertTokenizer, DataCollatorForLanguageModeling,
                          DataCollatorForTokenClassification,
                          DataCollatorWithPadding)

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"w{i}" for i in range(45)]
SEED = 7


def tokenizer(side):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vocab.txt"
        path.write_text("\n".join(WORDS) + "\n")
        return BertTokenizer(str(path), padding_side=side)


def row(ids, **extra):
    return {"input_ids": ids, "token_type_ids": [0] * 2 + [1] * (len(ids) - 2), **extra}


def sentences():
    generator = torch.Generator().manual_seed(1)
    result = []
    for length in (9, 4, 12, 7, 30, 2):
        ids = torch.randint(5, len(WORDS), (length,), generator=generator).tolist()
        result.append([2] + ids + [3])
    return result


def case(name, collator, rows, side, **options):
    batch = collator([dict(r) for r in rows])
    return {"name": name, "rows": rows, "side": side, "options": options,
            "batch": {key: value.tolist() for key, value in batch.items()}}


def main():
    plain = [row(ids, label=i % 3) for i, ids in enumerate(sentences())]
    real = [row(ids, label=i / 2) for i, ids in enumerate(sentences())]
    tagged = [row(ids, labels=[-100] + list(range(len(ids) - 2)) + [-100])
              for ids in sentences()]
    text = [row(ids) for ids in sentences()]
    cases = []
    for side in ("right", "left"):
        tokens = tokenizer(side)
        cases += [
            case("padding", DataCollatorWithPadding(tokens), plain, side),
            case("padding", DataCollatorWithPadding(tokens), real, side),
            case("padding", DataCollatorWithPadding(tokens, pad_to_multiple_of=8), plain, side,
                 pad_to_multiple_of=8),
            case("padding", DataCollatorWithPadding(tokens, padding="max_length", max_length=40),
                 plain, side, max_length=40),
            case("token_classification", DataCollatorForTokenClassification(tokens), tagged, side),
            case("causal", DataCollatorForLanguageModeling(tokens, mlm=False), text, side),
            case("masked", DataCollatorForLanguageModeling(tokens, seed=SEED), text, side),
            case("masked", DataCollatorForLanguageModeling(
                tokens, seed=SEED, mlm_probability=0.4, mask_replace_prob=0.5,
                random_replace_prob=0.3), text, side,
                mlm_probability=0.4, mask_replace_prob=0.5, random_replace_prob=0.3),
            case("masked", DataCollatorForLanguageModeling(
                tokens, seed=SEED, mask_replace_prob=1.0, random_replace_prob=0.0), text, side,
                mask_replace_prob=1.0, random_replace_prob=0.0),
        ]
    golden = {"seed": SEED, "vocab_size": len(WORDS), "special": [0, 1, 2, 3, 4],
              "mask": 4, "cases": cases}
    path = Path(__file__).resolve().parent / "golden" / "collators.json"
    path.write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
