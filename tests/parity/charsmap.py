# SPDX-License-Identifier: Apache-2.0
"""Writes SentencePiece's table of replacements, which `Precompiled` reads.

Four bytes with the size of a double array, the array, and the replacements,
each with a zero byte after it. A unit of the array holds a label (8 bits),
whether a key ends here (bit 8), and how far its children are (from bit 10 on);
where a key ends, the child of label 0 holds where its replacement begins.
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
        """The first place whose neighbours by these labels are all free."""
        base = 1
        while base in self.bases or any(base ^ label in self.units for label in labels):
            base += 1
        self.bases.add(base)
        return base

    def place(self, index, node):
        base = self.base_for(node)
        self.units[index] |= (index ^ base) << 10 | (0 in node) << 8
        for label in node:
            self.units[base ^ label] = label
        for label, child in node.items():
            if label == 0:
                self.units[base] = 1 << 31 | child
            else:
                self.place(base ^ label, child)

    def bytes(self):
        size = max(self.units) // 256 * 256 + 256
        return b"".join(struct.pack("<I", self.units.get(i, 0)) for i in range(size))


def charsmap(replacements):
    texts, places = b"", {}
    for key, text in replacements.items():
        places[key] = len(texts)
        texts += text.encode() + b"\0"
    array = DoubleArray()
    array.place(0, trie_of(places))
    units = array.bytes()
    return struct.pack("<I", len(units)) + units + texts


def replacements():
    """What is compatible in blocks that the texts have, blanks, and what goes."""
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
                  # Graphemes of two characters, of fewer than six bytes.
                  "e\u0301": "\u00e9", "o\u0308": "\u00f6", "u\u0308\u0304": "u"})
    return table
