# SPDX-License-Identifier: Apache-2.0
"""The sentence pairs in examples/data/ for PyTorch, and a small model for them.

This needs only torch: the bundled vocabulary tokenizes the sentences, and the
model is a two-layer Transformer with random weights.
"""

import csv
import re
from pathlib import Path
from types import SimpleNamespace

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

DATA = Path(__file__).resolve().parent.parent / "data"
PAD, UNK, CLS, SEP = range(4)


class Vocabulary:
    """Splits sentences into the longest pieces in vocab.txt."""

    def __init__(self, file=DATA / "vocab.txt"):
        self.ids = {piece: number for number, piece in enumerate(file.read_text().split())}

    def word(self, word):
        ids, start = [], 0
        while start < len(word):
            prefix = "##" if start else ""
            end = next((end for end in range(len(word), start, -1) if prefix + word[start:end] in self.ids), None)
            if end is None:
                return [UNK]
            ids.append(self.ids[prefix + word[start:end]])
            start = end
        return ids

    def __call__(self, sentence):
        return [number for word in re.findall(r"\w+|[^\w\s]", sentence.lower()) for number in self.word(word)]


def load_pairs(split, vocabulary):
    """One dictionary per row of `<split>.csv`: the ids of both sentences and the label."""
    pairs = []
    with open(DATA / f"{split}.csv", newline="") as file:
        for row in csv.DictReader(file):
            first, second = vocabulary(row["sentence1"]), vocabulary(row["sentence2"])
            pairs.append({
                "input_ids": torch.tensor([CLS, *first, SEP, *second, SEP]),
                "token_type_ids": torch.tensor([0] * (len(first) + 2) + [1] * (len(second) + 1)),
                "labels": int(row["label"]),
            })
    return pairs


def collate(pairs):
    """Pads the rows of a batch to the longest row."""
    batch = {name: pad_sequence([pair[name] for pair in pairs], batch_first=True, padding_value=PAD)
             for name in ("input_ids", "token_type_ids")}
    batch["labels"] = torch.tensor([pair["labels"] for pair in pairs])
    return batch


def make_dataloaders(batch_size):
    """One loader for training and one for evaluation."""
    vocabulary = Vocabulary()
    train, validation = load_pairs("train", vocabulary), load_pairs("validation", vocabulary)
    return (DataLoader(train, batch_size=batch_size, shuffle=True, collate_fn=collate),
            DataLoader(validation, batch_size=batch_size, collate_fn=collate))


class PairClassifier(torch.nn.Module):
    """Predicts whether two sentences mean the same thing. Returns `.logits`, and `.loss` if labels are passed."""

    def __init__(self, vocabulary_size=87, width=128, layers=2, heads=4, max_length=128):
        super().__init__()
        self.words = torch.nn.Embedding(vocabulary_size, width)
        self.positions = torch.nn.Embedding(max_length, width)
        self.sentences = torch.nn.Embedding(2, width)
        self.norm = torch.nn.LayerNorm(width)
        layer = torch.nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.pooler = torch.nn.Linear(width, width)
        self.classifier = torch.nn.Linear(width, 2)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                torch.nn.init.normal_(weight, std=0.05)

    def forward(self, input_ids, token_type_ids, labels=None):
        positions = torch.arange(input_ids.size(1), device=input_ids.device)
        hidden = self.norm(self.words(input_ids) + self.positions(positions) + self.sentences(token_type_ids))
        hidden = self.encoder(hidden, src_key_padding_mask=input_ids == PAD)
        logits = self.classifier(self.pooler(hidden[:, 0]).tanh())
        loss = None if labels is None else torch.nn.functional.cross_entropy(logits, labels)
        return SimpleNamespace(loss=loss, logits=logits)
