#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/parity/golden/tokenizers/regex.json: what `Split` and `Replace`
of Hugging Face `tokenizers` do with regular expressions that have no
hand-written scanner.

    tests/parity/make_regex.py     (tokenizers 0.23.3)
"""

import json
import zlib
from pathlib import Path

from tokenizers import Regex, decoders, normalizers, pre_tokenizers

from make_unicode import BLOCK, sentences

OUT = Path(__file__).resolve().parent / "golden/tokenizers/regex.json"

BEHAVIORS = {
    "Removed": "removed", "Isolated": "isolated", "Contiguous": "contiguous",
    "MergedWithPrevious": "merged_with_previous", "MergedWithNext": "merged_with_next",
}

MIXED = "Hello, World! 123.45 a_b-c  \tfoo\nbar\r\n x'S ÄÖß straße ＡＢ१२ 中文字 ★€ हिन्दी"

# Expressions and the texts that each is applied to.
ISOLATED = {
    # Empty matches.
    r"(?=(\d{3})+(?!\d))": ["1234567", "12 3456 7890123", "", "x"],
    r"\b": ["foo bar, baz", "हिन्दी x", "ab中c"],
    r"\B": ["foo bar"],
    r"(?<=[a-z])(?=[A-Z])": ["camelCaseTextX", "ABc"],
    r"": ["aé中", "x"],
    r"a*": ["baaac", "aab", "é"],
    r"x?": ["axb"],
    r"^": ["a\nb\n\nc", "\na\n"],
    r"$": ["a\nb\n\nc", "\na\n", "ab"],
    r"^|$": ["a\nb\n\nc", "ab"],
    r"\A": ["a\nb"], r"\z": ["a\nb\n", "é中", "aa"], r"\Z": ["a\nb\n", "é\n"],
    r"a*\z": ["baa", "aaba", "中aa", "b"], r"(?:a|é)*\Z": ["éa\n", "xaé"],
    r"a\z|b": ["aba", "bbé"],
    r"\G.": ["ab\nc"],
    r"(?<=\p{Han})(?=\p{Han})": ["中文 字a漢字"],
    r"foo\Kbar": ["foobar barfoobar"],
    # Classes.
    r"\w+|[^\w\s]+": ["हिन्दी", MIXED, "a\u200db ² ⅷ ①"], r"[\w]+": ["x²½y"], r"\p{Word}": ["x²½y"],
    r"\\p{Word}|\P{^w_ord}|\p{^Word}": ["p{Word}\\p{Word²"], r"[\p{Word}]": ["x²½y"],
    r"\W+": [MIXED], r"\d+": [MIXED], r"\D+": [MIXED], r"\s+": [MIXED], r"\S+": [MIXED],
    r"\h+": ["xyz beef 09 Gg"], r"\H+": ["xyz beef 09 Gg"],
    r"[[:alpha:]]+": ["हिन्दी abc1", MIXED], r"[[:^alpha:]]+": [MIXED],
    r"[[:word:]]+": ["हिन्दी a_1", MIXED],
    r"[[:punct:]]": ["a★b€c", MIXED, "$+<=>^`|~"],
    r"[[:alnum:]]+": [MIXED], r"[[:blank:]]+": [MIXED], r"[[:cntrl:]]": ["a\x00b\x7fc\x85d"],
    r"[[:digit:]]+": [MIXED], r"[[:graph:]]+": [MIXED], r"[[:lower:]]+": [MIXED],
    r"[[:print:]]+": [MIXED], r"[[:space:]]+": [MIXED], r"[[:upper:]]+": [MIXED],
    r"[[:xdigit:]]+": ["xyz beef 09 Ｆ"], r"[[:ascii:]]+": [MIXED],
    r"\p{Alnum}+": [MIXED], r"\p{Punct}": ["a★b€c!", MIXED], r"\p{Word}+": ["हिन्दी a_1", MIXED],
    r"\p{^Alpha}+": [MIXED], r"\P{Alpha}+": [MIXED], r"[^\P{Lu}]": [MIXED],
    r"\pL+": ["pL pLL x"],
    r"[\p{L}\p{M}]+": ["हिन्दी e\u0301x"], r"\p{Emoji}": ["a😀b1🫨"],
    r"\p{In_CJK_Unified_Ideographs}+": ["a中文ー"],
    r"[a-z&&[^aeiou]]+": ["hello world"], r"[\w&&[^\d_]]+": ["a1_bé2"],
    r"[^a-z&&[^aeiou]]+": ["hello World"],
    r" ?[^(\s|[.,!?…。，、।۔،])]+": ["Hi, you!  (ok) ¿qué? 你好。ठीक है।", "a|b [c]"],
    r"[[a-c][x-z]]+": ["abxyq"], r"[]a]+": ["a]b"], r"[a\]b]+": ["a]bc"], r"[a-]+": ["a-b"],
    r"[^\n]+": ["a\nb"], r".": ["a\né"], r"(?m:.)": ["a\né"], r"\N+|\O": ["a\nb"],
    r"x|\R*": ["a\nb\r\n\r\nc"], r"[\R]+|\R+": ["R\n\r\nx"], r"\R": ["a\r\nb\nc\rd\u2028e\x85f"],
    # Case.
    r"(?i:ss)": ["ß Ss ẞ ſs", "straße"], r"(?i:straße)": ["STRASSE strasse Straße"],
    r"(?i)k": ["k K \u212a"], r"(?i:[ß])": ["ss ß ẞ"], r"(?i:'s|'t)": ["'S 'T '\u017f"],
    r"(?i:ﬁ)": ["fi FI ﬁ"], r"(?i:[a-z])+": ["ABC\u212a\u017fé"], r"(?i:é)": ["É é e\u0301"],
    r"a(?i)b|c": ["aB aC C"], r"(?i:a)b": ["AB Ab"], r"(?-i:a)": ["aA"], r"(?i:\p{Lu})": ["aA"],
    r"(?i:[\p{Lu}])": ["aA"], r"(?i:Ꮳ)": ["ꮳᏣ"], r"(?i:\x{10D50})": ["\U00010d50\U00010d70"],
    r"(?i:[\x{10D50}])": ["\U00010d50\U00010d70"], r"(?i:(\x{A7CB})\1)": ["\ua7cb\u0264"],
    # Options, groups, repetitions.
    r"(?W:\w+)": [MIXED], r"(?D:\d+)": [MIXED], r"(?S:\s+)": ["a\u00a0b c"], r"(?P:[[:alpha:]]+)": [MIXED],
    r"(?P:\p{Alphabetic}+|\p{Nd})": [MIXED],
    r"(?W:\b)": ["aéb"], r"(?x: a b # comment" + "\n" + r" c )": ["abc a b c"],
    r"(?<y>a)\k<y>": ["aab"], r"(a)(b)?\1": ["abaa"], r"(?>a+)b": ["aab"], r"a++": ["aab"],
    r"a{,2}": ["aaab"], r"a{2,}?": ["aaaa"], r"a{2}+": ["aaaaa"], r"(?~ab)": ["xxabyy"],
    r"(?<!a)b": ["ab bb"], r"(?<=a+)b": ["aab b"], r"(?<=a|bc)d": ["ad bcd d"],
    r"(?<p>\((?:[^()]|\g<p>)*\))": ["x(a(b)c)y)"], r"\x{4e2d 6587}": ["a中文"], r"[\u4e2d\x41]": ["中A"],
    r"\Qa.b\E": ["a.b QaxbE"], r"(?#note)a": ["ab"], r"[\x{4e00}-\x{9fff}]+": ["中文a"],
    # Expressions of known tokenizers.
    r"'s|'t|'re|'ve|'m|'ll|'d| ?[[:alpha:]]+| ?[[:digit:]]+| ?[^\s[:alpha:][:digit:]]+|\s+(?!\S)|\s+":
        [MIXED, "हिन्दी  है"],
    r"\p{N}{1,3}": ["1234567 ⅷ²"],
    r"[一-龥぀-ゟ゠-ヿ]+": ["中文かなカナabc"],
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
    r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+": [MIXED, "x=\"a.b\";\n\n  y"],
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+": [MIXED, "HTMLParser's café"],
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|"
    r"\s+(?!\S)|\s+": [MIXED, "I'Ll\n\n\nx"],
}

BEHAVIOR_PATTERNS = [r"\b", r"(?=[A-Z])", r"x*", r"\s*", "", r"(?<=,)|[ ]", r"-"]
BEHAVIOR_TEXTS = ["the-final--countdown", "aXbXX, c d", "-", "éx-"]

REPLACE = [
    (r"(?<=\p{Han})(?=\p{Han})", " ", ["中文字 a", "中"]),
    (r"", "-", ["aé中", ""]), (r"^", ">", ["a\nb", ""]), (r"$", "<", ["a\nb", ""]),
    (r"x*", "_", ["axxb", "é"]), (r"\s+", " ", ["a  b\n\nc"]), (r"(a)(b)", r"\2\1", ["abab"]),
    (r"(?=\d)", "", ["a1"]), (r"\p{M}", "", ["e\u0301हिन्दी"]), (r"\b", "|", ["ab cd"]),
]
REPLACE_STRINGS = [("", "-", ["aé中", ""]), ("ab", "", ["aabb"]), (".", "!", ["a.b.c"]),
                   ("[(?*&~#-", "x", ["[(?*&~#-[("])]

# Expressions that are applied to every code point, in the sentences of
# make_unicode.py.
EVERY_CODE_POINT = [
    r"\w+|[^\w\s]+", r"\b", r"\d", r"\s+", r"[[:alnum:]]+", r"[[:alpha:]]+", r"[[:punct:]]+",
    r"[[:lower:]]+", r"[[:upper:]]+", r"[[:print:]]+", r"[[:graph:]]+", r"[[:cntrl:]]+",
    r"[[:blank:]]+", r"[^\p{L}\p{M}\p{N}]+", r"\p{P}+|\p{S}+", r"\p{Han}+|\p{Hiragana}+|\p{Latin}+",
    r"(?i:[a-zà-þ\x{10D50}-\x{10D65}])+", r"\p{Cn}+",
]


def split(pattern, behavior, invert, text):
    pieces = pre_tokenizers.Split(pattern, BEHAVIORS[behavior], invert).pre_tokenize_str(text)
    return [piece for piece, _ in pieces]


def main():
    splits, replacements = [], []
    for expression, texts in ISOLATED.items():
        for text in texts:
            splits.append(["Regex", expression, "Isolated", False, text,
                           split(Regex(expression), "Isolated", False, text)])
    for expression in BEHAVIOR_PATTERNS:
        for behavior in BEHAVIORS:
            for invert in (False, True):
                for text in BEHAVIOR_TEXTS:
                    splits.append(["Regex", expression, behavior, invert, text,
                                   split(Regex(expression), behavior, invert, text)])
    for text in ("aé中", "x"):
        splits.append(["String", "", "Isolated", False, text, split("", "Isolated", False, text)])
    for kind, table in (("Regex", REPLACE), ("String", REPLACE_STRINGS)):
        for pattern, content, texts in table:
            for text in texts:
                matched = Regex(pattern) if kind == "Regex" else pattern
                result = normalizers.Replace(matched, content).normalize_str(text)
                assert decoders.Replace(matched, content).decode([text]) == result
                replacements.append([kind, pattern, content, text, result])
    sums = {}
    for expression in EVERY_CODE_POINT:
        sums[expression] = []
        for block in range(0x110000 // BLOCK):
            first = block * BLOCK
            texts = list(sentences(block))
            if not texts or 0x40000 <= first < 0xE0000 or first > 0xF0000:
                continue
            pieces = split(Regex(expression), "Isolated", False, " ".join(texts))
            sums[expression].append(f"{zlib.crc32(chr(0).join(pieces).encode()):08x}")
        # One checksum of all blocks keeps the file short.
        sums[expression] = f"{zlib.crc32(' '.join(sums[expression]).encode()):08x}"
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in splits)
    more = ",\n".join(json.dumps(case, ensure_ascii=False) for case in replacements)
    OUT.write_text('{"split": [\n' + lines + '\n],\n"replace": [\n' + more +
                   '\n],\n"every_code_point": ' + json.dumps(sums, indent=0) + "}\n")


if __name__ == "__main__":
    main()
