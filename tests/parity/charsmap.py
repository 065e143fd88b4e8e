# SPDX-License-Identifier: Apache-2.0
"""Writes SentencePiece's charsmap, which `Precompiled` reads.

Four bytes with the size of a double array, the array, and the replacements,
each followed by a zero byte. A unit of the array contains a label (8 bits),
whether a key ends here (bit 8), and the offset of its children (from bit 10
on). Where a key ends, the child with label 0 contains the offset of its
replacement.
"""

import struct
import unicodedata


def trie_of(entries):
    root = {}
    for key, value in entries.items():
        node = root
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[0] = value
    return root


class DoubleArray:
    def __init__(self):
        self.units = {0: 0}
        self.bases = set()

    def base_for(self, labels):
        """Returns the first base for which the positions of all labels are
        free."""
        base = 1
        while base in self.bases or any(base ^ label in self.units for label in labels):
            base += 1
        self.bases.add(base)
        return base

    def insert(self, index, node):
        base = self.base_for(node)
        self.units[index] |= (index ^ base) << 10 | (0 in node) << 8
        for label in node:
            self.units[base ^ label] = label
        for label, child in node.items():
            if label == 0:
                self.units[base] = 1 << 31 | child
            else:
                self.insert(base ^ label, child)

    def bytes(self):
        size = max(self.units) // 256 * 256 + 256
        return b"".join(struct.pack("<I", self.units.get(i, 0)) for i in range(size))


def charsmap(replacements):
    texts, offsets = b"", {}
    for key, text in replacements.items():
        offsets[key] = len(texts)
        texts += text.encode() + b"\0"
    array = DoubleArray()
    array.insert(0, trie_of(offsets))
    units = array.bytes()
    return struct.pack("<I", len(units)) + units + texts


def replacements():
    """Returns replacements for compatibility forms in the blocks of the test
    texts, for whitespace, and for characters that are removed."""
    table = {}
    blocks = [(0xA0, 0x17F), (0x1F00, 0x1FFF), (0x2000, 0x206F), (0x2100, 0x214F),
              (0x2460, 0x24FF), (0xFB00, 0xFB4F), (0xFF00, 0xFFEF)]
    for first, last in blocks:
        for code in range(first, last + 1):
            text = unicodedata.normalize("NFKC", chr(code))
            if text != chr(code):
                table[chr(code)] = text
    table.update({"\t": " ", "\n": " ", "\r": " ", "\u200b": "", "\u00ad": "",
                  "\u0001": "", "\u3000": " ", "\ufdfa": "a b c d e f",
                  # Graphemes of several characters and fewer than six bytes.
                  "e\u0301": "\u00e9", "o\u0308": "\u00f6", "u\u0308\u0304": "u"})
    return table
