#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes golden/rope.json: rotary embeddings of Llama configs in Hugging Face
Transformers.

    tests/parity/make_rope.py      (Transformers 5.22.2, torch 2.11.0)

Each case contains the `config.json`, and the cosines and sines at some
positions; the first half of the channels, because the second half is equal.
"""

import copy
import json
from pathlib import Path

import torch
import transformers
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

GOLDEN = Path(__file__).parent / "golden"
SIZES = dict(model_type="llama", hidden_size=64, num_attention_heads=4,
             max_position_embeddings=32)
POSITIONS = (1, 7, 29)

LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=16)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16)
LONGROPE = dict(rope_type="longrope", short_factor=[1.0 + i / 8 for i in range(8)],
                long_factor=[4.0 - i / 8 for i in range(8)],
                original_max_position_embeddings=64)
LINEAR = dict(rope_type="linear", factor=4.0, rope_theta=500.0)
OUTSIDE = dict(original_max_position_embeddings=8)


def without(key, parameters):
    return {name: value for name, value in parameters.items() if name != key}


CASES = {
    "Llama3Outside": dict(OUTSIDE, rope_parameters=LLAMA3),
    "Llama3OnlyOutside": dict(OUTSIDE, rope_parameters=without(
        "original_max_position_embeddings", LLAMA3)),
    "Llama3Inside": dict(rope_parameters=LLAMA3),
    "Llama3Nowhere": dict(rope_parameters=without(
        "original_max_position_embeddings", LLAMA3)),
    "YarnOutside": dict(OUTSIDE, rope_parameters=dict(YARN, rope_theta=100.0)),
    "YarnFinetuned": dict(rope_scaling=dict(YARN, finetuned=True)),
    "YarnBetaZero": dict(rope_scaling=dict(
        YARN, beta_fast=0, beta_slow=0, original_max_position_embeddings=4096)),
    "YarnTruncateNull": dict(rope_scaling=dict(
        YARN, truncate=None, original_max_position_embeddings=4096)),
    "YarnTruncate": dict(rope_scaling=dict(
        YARN, truncate=True, original_max_position_embeddings=4096)),
    "YarnFactorNull": dict(rope_scaling=dict(YARN, factor=None)),
    "LongRopeOutside": dict(OUTSIDE, rope_parameters=LONGROPE),
    "LongRopeInside": dict(rope_parameters=LONGROPE),
    "LinearOutside": dict(OUTSIDE, rope_parameters=LINEAR),
    "DynamicOutside": dict(OUTSIDE, rope_scaling=dict(type="dynamic", factor=2.0)),
    "ScalingAndParameters": dict(
        rope_scaling=dict(type="linear", factor=2.0), rope_parameters=LINEAR),
    "ScalingParametersAndTheta": dict(
        rope_scaling=dict(type="linear", factor=2.0), rope_parameters=LINEAR,
        rope_theta=700.0),
    "EmptyScaling": dict(rope_scaling={}, rope_parameters=LINEAR),
    "NullScaling": dict(rope_scaling=None, rope_parameters=LINEAR),
    "BothTypes": dict(rope_scaling=dict(LINEAR, type="yarn")),
    "PartialOfDefault": dict(rope_theta=300.0, partial_rotary_factor=0.5),
    "PartialInsideOfDefault": dict(rope_parameters=dict(
        rope_type="default", rope_theta=300.0, partial_rotary_factor=0.5)),
}


def rounded(values_TF):
    return [[round(value, 7) for value in row] for row in values_TF.tolist()]


def main():
    transformers.logging.set_verbosity_error()
    cases = []
    for name, fields in CASES.items():
        config = dict(SIZES, **copy.deepcopy(fields))
        text = json.dumps(config)
        rotary = LlamaRotaryEmbedding(LlamaConfig.from_dict(config))
        cos, sin = rotary(torch.zeros(1), torch.tensor([POSITIONS]))
        half = cos.shape[-1] // 2
        cases.append({"name": name, "config": json.loads(text),
                      "positions": POSITIONS,
                      "cos": rounded(cos[0, :, :half]),
                      "sin": rounded(sin[0, :, :half])})
    lines = ",\n".join(json.dumps(case) for case in cases)
    (GOLDEN / "rope.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
