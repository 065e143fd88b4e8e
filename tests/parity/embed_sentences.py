#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the embeddings of twenty sentences, computed by Hugging Face
Transformers with a real checkpoint.

    tests/parity/embed_sentences.py <model folder> <sentences> <file>

Also writes the sentences, one per line.
"""

import sys
from pathlib import Path

import torch
import transformers as hf
from safetensors.torch import save_file

SENTENCES = [
    "The cat sleeps on the warm stove.",
    "A dog barks.",
    "Two processes average their gradients.",
    "What time does the last train leave?",
    "He said nothing, and she understood.",
    "Numbers like 3.14, 42 and 1,000,000 are everywhere!",
    "Café, naïve, jalapeño, Zürich.",
    "日本語の文もある。",
    "Она читает книгу у окна.",
    "العربية تكتب من اليمين إلى اليسار",
    "🙂 emoji and text 🚀",
    "UPPER case and lower CASE",
    "a",
    "",
    "The quick brown fox jumps over the lazy dog near the river bank.",
    "If it rains tomorrow, the match will be moved to Sunday.",
    "x = y + z * 2  # a line of code",
    "Supercalifragilisticexpialidocious words are split into pieces.",
    "One sentence. Another sentence. A third one, for length.",
    "The end of the list is as good a place as any to stop.",
]


def main():
    hf.logging.set_verbosity_error()
    folder, sentences, out = sys.argv[1:]
    Path(sentences).write_text("".join(line + "\n" for line in SENTENCES),
                               encoding="utf-8")
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    model = hf.AutoModel.from_pretrained(folder).eval()
    batch = tokenizer(SENTENCES, padding=True, truncation=True,
                      return_tensors="pt")
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1).float()
    mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
    save_file({"input_ids": batch["input_ids"],
               "attention_mask": batch["attention_mask"],
               "embeddings": torch.nn.functional.normalize(mean)}, out)


if __name__ == "__main__":
    main()
