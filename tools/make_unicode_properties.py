#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/tokenizers/text/unicode_property_tables.cpp and
tests/parity/golden/tokenizers/unicode_properties.json.

    tools/make_unicode_properties.py    (needs Python `tokenizers` 0.23, Python 3.11)

Uses the regular expressions of Hugging Face `tokenizers` to find which code
points have which property (`\\p{...}`, `[[:...:]]`, `\\w`) and which letters
are equal regardless of case. A property is stored as a union of general
categories and the ranges in which it differs from that union, which is five
times shorter than its ranges.
"""

import json
import unicodedata
import zlib
from collections import Counter
from pathlib import Path

import tokenizers
from tokenizers import Regex, pre_tokenizers

ROOT = Path(__file__).resolve().parent.parent
TABLES = ROOT / "src/tokenizers/text/unicode_property_tables.cpp"
GOLDEN = ROOT / "tests/parity/golden/tokenizers/unicode_properties.json"
NAMES = Path(__file__).resolve().parent / "unicode_property_names.txt"

LIMIT = 0x110000
# The POSIX properties, in the order of Oniguruma's ONIGENC_CTYPE_ constants.
POSIX = ("newline alpha blank cntrl digit graph lower print posixpunct space "
         "upper xdigit word alnum ascii").split()
CATEGORIES = ("lu ll lt lm lo mn mc me nd nl no pc pd ps pe pi pf po sm sc sk so "
              "zs zl zp cc cf cs co cn").split()


def sampled(c):
    """Returns whether to test the code point `c`. Planes 4 to 13, 15 and 16
    are tested only at their ends, because their other code points all have the
    same properties."""
    plane, low = c >> 16, c & 0xFFFF
    uniform = 4 <= plane <= 13 or plane >= 15
    return not 0xD800 <= c < 0xE000 and (not uniform or not 16 <= low < 0xFFF0)


POINTS = [c for c in range(LIMIT) if sampled(c)]
TEXT = "".join(map(chr, POINTS))


def code_points(name):
    """Returns a byte per code point: 1 if the code point has the property."""
    split = pre_tokenizers.Split(Regex(rf"[\p{{{name}}}]+"), "removed", invert=True)
    found = bytearray(LIMIT)
    for _, (begin, end) in split.pre_tokenize_str(TEXT):
        for i in range(begin, end):
            found[POINTS[i]] = 1
    for plane in [*range(4, 14), 15, 16]:
        middle = (plane << 16) + 15
        assert found[middle] == found[(plane << 16) + 0xFFF0], (name, plane)
        found[middle:(plane << 16) + 0xFFF0] = \
            bytes([found[middle]]) * (0xFFF0 - 15)
    # A text cannot contain surrogates.
    found[0xD800:0xE000] = bytes([name in ("cs", "surrogate", "any", "c")]) * 0x800
    return bytes(found)


def ranges(found):
    result = []
    begin = found.find(1)
    while begin >= 0:
        end = found.find(0, begin)
        end = LIMIT if end < 0 else end
        result.append((begin, end - 1))
        begin = found.find(1, end)
    return result


def without_surrogates(found):
    """Returns the ranges without surrogates, for the golden file."""
    parts = []
    for first, last in ranges(found[:0xD800] + bytes(0x800) + found[0xE000:]):
        parts.append(f"{first:X}-{last:X}")
    return " ".join(parts)


class Categories:
    def __init__(self):
        self.of = bytearray([255]) * LIMIT
        for i, name in enumerate(CATEGORIES):
            for first, last in ranges(code_points(name)):
                assert set(self.of[first:last + 1]) == {255}, name
                self.of[first:last + 1] = bytes([i]) * (last + 1 - first)
        assert 255 not in self.of
        self.sizes = Counter(self.of)

    def runs(self):
        starts = [0] + [c for c in range(1, LIMIT) if self.of[c] != self.of[c - 1]]
        return [(c, self.of[c]) for c in starts]

    def mask_and_differences(self, found):
        """Returns the categories of which most code points have the property,
        and the exceptions."""
        inside = Counter()
        for first, last in ranges(found):
            inside.update(self.of[first:last + 1])
        best = (0, ranges(found))
        mask = sum(1 << i for i, n in inside.items() if 2 * n > self.sizes[i])
        union = bytes(self.of).translate(
            bytes(i < 32 and mask >> i & 1 for i in range(256)))
        differences = (int.from_bytes(found, "little") ^
                       int.from_bytes(union, "little")).to_bytes(LIMIT, "little")
        return min(best, (mask, ranges(differences)), key=lambda x: len(x[1]))


def equal_letters():
    """Returns the characters that `(?i:letter)` matches, for each letter with
    case."""
    cased = sorted({c for name in ("cwcf", "cwl", "cwu", "cwt")
                    for first, last in ranges(code_points(name))
                    for c in range(first, last + 1)})
    text = "".join(f"{chr(c)}\n" for c in cased)
    result = {}
    for c in cased:
        split = pre_tokenizers.Split(
            Regex(rf"(?i:\x{{{c:X}}})"), "removed", invert=True)
        matches = "".join(piece for piece, _ in split.pre_tokenize_str(text))
        result[c] = sorted(map(ord, matches))
    return result


# The capital letters of Unicode 14, which the oldest supported Oniguruma lacks.
UNICODE_14 = {0x2C2F, 0xA7C0, 0xA7D0, 0xA7D6, 0xA7D8, *range(0x10570, 0x10596)}


def new_folds(equal):
    """Pairs of upper and lower case that are newer than Unicode 13."""
    assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version
    capital = code_points("lu")
    pairs = []
    for c, others in equal.items():
        known = {d for d in others if chr(d).casefold() == chr(c).casefold()}
        if capital[c] and (c in UNICODE_14 or len(known) < len(others)):
            upper, lower = sorted(others, key=lambda d: d != c)
            pairs.append((upper, lower))
    return sorted(pairs)


def emit(out, head, rows):
    out.append(f"{head} = {{")
    line = "   "
    for row in rows:
        if len(line) + len(row) + 2 > 79:
            out.append(line)
            line = "   "
        line += f" {row},"
    out += [line, "};"]


def crc(text):
    return f"{zlib.crc32(text.encode()):08x}"


def main():
    names = POSIX + NAMES.read_text().split()
    categories = Categories()
    properties, index, golden = [], {}, {}
    by_points = {}
    for name in names:
        found = code_points(name)
        golden[name] = crc(without_surrogates(found))
        if found in by_points and name not in POSIX:
            index[name] = by_points[found]
            continue
        index[name] = len(properties)
        properties.append(categories.mask_and_differences(found))
        # `(?P)` limits the POSIX properties to ASCII. It does not limit
        # properties such as `\\p{Alphabetic}`, which otherwise equals
        # `\\p{Alpha}`.
        if name not in POSIX:
            by_points[found] = index[name]
    equal = equal_letters()

    out = [
        "// SPDX-License-Identifier: Apache-2.0",
        "// Written by tools/make_unicode_properties.py from tokenizers "
        f"{tokenizers.__version__}.",
        '#include "tokenizers/text/unicode_properties.h"',
        "",
        "// clang-format off",
        "namespace transformers::tokenizers {",
        "",
    ]
    emit(out, "constexpr CategoryRun kCategoryRunsData[]",
         [f"{{0x{c:X}, {category}}}" for c, category in categories.runs()])
    out.append("const std::span<const CategoryRun> kCategoryRuns{kCategoryRunsData};\n")
    rows, differences = [], []
    for mask, found in properties:
        rows.append(f"{{0x{mask:X}, {len(differences)}, {len(found)}}}")
        differences += [f"{{0x{a:X}, 0x{b:X}}}" for a, b in found]
    emit(out, "constexpr CodeRange kPropertyDifferencesData[]", differences)
    out.append("const CodeRanges kPropertyDifferences{kPropertyDifferencesData};\n")
    emit(out, "constexpr PropertyData kPropertiesData[]", rows)
    out.append("const std::span<const PropertyData> kProperties{kPropertiesData};\n")
    emit(out, "constexpr PropertyName kPropertyNamesData[]",
         [f'{{"{name}", {index[name]}}}' for name in sorted(names)])
    out.append("const std::span<const PropertyName> kPropertyNames{kPropertyNamesData};\n")
    emit(out, "constexpr CaseFold kNewCaseFoldsData[]",
         [f"{{0x{a:X}, 0x{b:X}}}" for a, b in new_folds(equal)])
    out += ["const std::span<const CaseFold> kNewCaseFolds{kNewCaseFoldsData};", "",
            "}  // namespace transformers::tokenizers"]
    TABLES.write_text("\n".join(out) + "\n")

    lines = [f"{c:X} " + " ".join(f"{d:X}" for d in others)
             for c, others in equal.items()]
    GOLDEN.write_text(json.dumps({
        "properties": golden,
        "equal_letters": crc("\n".join(lines)),
    }, indent=0) + "\n")


if __name__ == "__main__":
    main()
