#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loads folders that the C++ library saved and compares the model outputs.

    tests/parity/check_models.py <output folder of `parity_models export`> <count>
"""

import sys
from pathlib import Path

import torch
import transformers as hf
from safetensors.torch import load_file

HEADS = {
    "base": hf.AutoModel,
    "sequence_classification": hf.AutoModelForSequenceClassification,
    "token_classification": hf.AutoModelForTokenClassification,
    "question_answering": hf.AutoModelForQuestionAnswering,
    "masked_lm": hf.AutoModelForMaskedLM,
    "causal_lm": hf.AutoModelForCausalLM,
}
TOLERANCE = 1e-5


def difference(folder):
    head = folder.name.split("_", 1)[1]
    model, info = HEADS[head].from_pretrained(folder, output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info[kind]:
            raise SystemExit(f"{folder.name}: {kind}: {sorted(info[kind])}")
    golden = load_file(folder / "golden.safetensors")
    inputs = {name[len("input."):]: tensor for name, tensor in golden.items()
              if name.startswith("input.")}
    with torch.no_grad():
        outputs = model.eval()(**inputs)
    for name in ("logits", "start_logits", "last_hidden_state"):
        if name in outputs:
            return (outputs[name] - golden["output"]).abs().max().item()
    raise SystemExit(f"{folder.name}: no output to compare")


def main():
    hf.logging.set_verbosity_error()
    hf.logging.disable_progress_bar()
    worst, count = 0.0, 0
    for config in sorted(Path(sys.argv[1]).glob("*/config.json")):
        error = difference(config.parent)
        if error > TOLERANCE:
            raise SystemExit(f"{config.parent.name}: the output differs by {error}")
        worst, count = max(worst, error), count + 1
    print(f"{count} folders saved by C++, largest difference {worst:.1e}")
    sys.exit(0 if count == int(sys.argv[2]) else 1)


if __name__ == "__main__":
    main()
