#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/parity/golden/tokenizers/unicode.json: CRC-32 checksums of the
output of each stage of Hugging Face `tokenizers` for every code point, in
blocks of 4096.

    tests/parity/make_unicode.py     (tokenizers 0.23.3)
"""

import json
import zlib
from pathlib import Path

from tokenizers import Regex, normalizers, pre_tokenizers

OUT = Path(__file__).resolve().parent / "golden/tokenizers/unicode.json"
BLOCK = 4096
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")

NORMALIZERS = {
    "NFC": normalizers.NFC(), "NFD": normalizers.NFD(),
    "NFKC": normalizers.NFKC(), "NFKD": normalizers.NFKD(),
    "Lowercase": normalizers.Lowercase(), "Nmt": normalizers.Nmt(),
    "StripAccents": normalizers.StripAccents(),
    "BertNormalizer": normalizers.BertNormalizer(),
}
PRE_TOKENIZERS = {
    "BertPreTokenizer": pre_tokenizers.BertPreTokenizer(),
    "Whitespace": pre_tokenizers.Whitespace(),
    "WhitespaceSplit": pre_tokenizers.WhitespaceSplit(),
    "Digits": pre_tokenizers.Digits(individual_digits=True),
    "Punctuation": pre_tokenizers.Punctuation(),
    "ByteLevel": pre_tokenizers.ByteLevel(add_prefix_space=False),
    "Split": pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
}


def sentences(block):
    """Returns texts with each code point between letters, after a digit, and
    with combining marks."""
    for c in range(block * BLOCK, (block + 1) * BLOCK):
        if not 0xD800 <= c < 0xE000:
            yield f"a{chr(c)}b 1{chr(c)} {chr(c)}\u0301\u0323{chr(c)}"


def digest(parts):
    return f"{zlib.crc32(chr(0).join(parts).encode()):08x}"


def main():
    golden = {name: [] for name in [*NORMALIZERS, *PRE_TOKENIZERS]}
    for block in range(0x110000 // BLOCK):
        texts = list(sentences(block))
        first = block * BLOCK
        if not texts or 0x40000 <= first < 0xE0000 or first > 0xF0000:
            continue  # Surrogates, and planes without characters.
        text = " ".join(texts)
        for name, normalizer in NORMALIZERS.items():
            golden[name].append(digest([normalizer.normalize_str(text)]))
        for name, pre_tokenizer in PRE_TOKENIZERS.items():
            pieces = pre_tokenizer.pre_tokenize_str(text)
            golden[name].append(digest([piece for piece, _ in pieces]))
    OUT.write_text(json.dumps(golden, indent=0))


if __name__ == "__main__":
    main()
