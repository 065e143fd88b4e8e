#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/tokenizers/text/unicode_tables.cpp.

    tools/make_unicode_tables.py        (needs Python `tokenizers` 0.23)

The stages of Hugging Face `tokenizers` use tables from different Unicode
versions, so this script derives the tables from the behavior of the library,
one code point at a time. At run time, utf8proc provides the decompositions,
but only for the code points listed here: newer utf8proc versions decompose
more.
"""

import unicodedata
from pathlib import Path

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

OUT = Path(__file__).resolve().parent.parent / \
    "src/tokenizers/text/unicode_tables.cpp"
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def ranges(points):
    """Consecutive code points as (first, last)."""
    result = []
    for point in sorted(points):
        if result and result[-1][1] == point - 1:
            result[-1][1] = point
        else:
            result.append([point, point])
    return result


def matching(pattern):
    text = "".join(map(chr, POINTS))
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    found = []
    for piece, _ in split.pre_tokenize_str(text):
        found += map(ord, piece)
    return found


def differences(points, name):
    """What distinguishes `points` from a property in unicode_property_tables.cpp."""
    return set(points) ^ set(matching(rf"[\p{{{name}}}]"))


def removed_by(normalizer):
    """Returns the code points that a normalizer removes. Tests each code point
    separately, so that decompositions do not interfere."""
    return [c for c in POINTS if normalizer.normalize_str("a" + chr(c)) == "a"]


def isolated_by(pre_tokenizer):
    found = []
    for start in range(0, len(POINTS), 4096):
        block = POINTS[start:start + 4096]
        text = "".join(f"a{chr(c)}a " for c in block)
        pieces = pre_tokenizer.pre_tokenize_str(text)
        found += [ord(p) for p, (b, e) in pieces if e - b == 1 and p != "a"
                  and b % 4 == 1]
    return found


def word_characters():
    found = []
    whitespace = pre_tokenizers.Whitespace()
    for start in range(0, len(POINTS), 4096):
        block = POINTS[start:start + 4096]
        text = "".join(f"a{chr(c)} " for c in block)
        for piece, (begin, end) in whitespace.pre_tokenize_str(text):
            if begin % 3 == 0 and end - begin == 2:
                found.append(ord(piece[1]))
    return found


def lower_cases():
    lower = normalizers.Lowercase()
    pairs, longer = [], []
    for c in POINTS:
        result = lower.normalize_str(chr(c))
        if result != chr(c):
            if len(result) == 1:
                pairs.append((c, ord(result) - c))
            else:
                longer.append((c, result))
    assert longer == [(0x130, "i\u0307")], longer
    runs = []
    for c, delta in pairs:
        if runs and runs[-1][2] == delta:
            first, last, _, step = runs[-1]
            if c - last == (step or c - last) and c - last <= 2:
                runs[-1] = [first, c, delta, c - last]
                continue
        runs.append([c, c, delta, 0])
    return [(first, last, delta, step or 1) for first, last, delta, step in runs]


def decomposing(normalizer, form):
    """Returns the code points that `tokenizers` decomposes, in the same way as
    utf8proc."""
    found = []
    for c in POINTS:
        decomposed = normalizer.normalize_str(chr(c))
        if decomposed != chr(c):
            assert decomposed == unicodedata.normalize(form, chr(c)), hex(c)
            found.append(c)
    return found


def combining_classes():
    """Returns runs of characters that `tokenizers` reorders, with their
    combining class."""
    nfd = normalizers.NFD()
    runs = []
    for c in POINTS:
        combining_class = unicodedata.combining(chr(c))
        text = "a\u0345" + chr(c)
        if not combining_class or (c != 0x345 and nfd.normalize_str(text) == text):
            continue
        if runs and runs[-1][1] == c - 1 and runs[-1][2] == combining_class:
            runs[-1][1] = c
        else:
            runs.append([c, c, combining_class])
    return runs


def emit_ranges(out, name, points):
    rows = [f"{{0x{a:X}, 0x{b:X}}}" for a, b in ranges(points)]
    emit(out, f"constexpr CodeRange {name}Data[]", rows)
    out.append(f"const CodeRanges {name}{{{name}Data}};\n")


def emit(out, head, rows):
    out.append(f"{head} = {{")
    line = "   "
    for row in rows:
        if len(line) + len(row) + 2 > 79:
            out.append(line)
            line = "   "
        line += f" {row},"
    out += [line, "};"]


def main():
    assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version
    bert = {"handle_chinese_chars": False, "lowercase": False}
    clean = normalizers.BertNormalizer(clean_text=True, strip_accents=False, **bert)
    accents = normalizers.BertNormalizer(clean_text=False, strip_accents=True, **bert)
    chinese = normalizers.BertNormalizer(
        clean_text=False, strip_accents=False, lowercase=False)
    out = [
        "// SPDX-License-Identifier: Apache-2.0",
        f"// Written by tools/make_unicode_tables.py from tokenizers {tokenizers.__version__}.",
        '#include "tokenizers/text/unicode_tables.h"',
        "",
        "// clang-format off",
        "namespace transformers::tokenizers {",
        "",
    ]
    for name, points in {
        "kWordDifferences": differences(word_characters(), "word"),
        "kNumericDifferences": differences(
            isolated_by(pre_tokenizers.Digits(individual_digits=True)), "N"),
        "kPunctuationDifferences": differences(
            isolated_by(pre_tokenizers.Punctuation()), "P"),
        "kNonspacingMarkDifferences": differences(removed_by(accents), "Mn"),
        "kCombiningMarkDifferences": differences(
            removed_by(normalizers.StripAccents()), "M"),
        "kControls": removed_by(clean),
        "kChinese": [c for c in POINTS if chinese.normalize_str(chr(c)) == f" {chr(c)} "],
        "kCanonical": decomposing(normalizers.NFD(), "NFD"),
        "kCompatible": decomposing(normalizers.NFKD(), "NFKD"),
    }.items():
        print(name, len(points))
        emit_ranges(out, name, points)
    rows = [f"{{0x{a:X}, 0x{b:X}, {delta}, {step}}}"
            for a, b, delta, step in lower_cases()]
    emit(out, "constexpr CaseRange kLowerCaseData[]", rows)
    out.append("const CaseRanges kLowerCase{kLowerCaseData};")
    rows = [f"{{0x{a:X}, 0x{b:X}, {combining_class}}}"
            for a, b, combining_class in combining_classes()]
    emit(out, "constexpr ClassRange kMarkClassesData[]", rows)
    out += ["const ClassRanges kMarkClasses{kMarkClassesData};", "",
            "}  // namespace transformers::tokenizers"]
    OUT.write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
