#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds retired words and phrases in all text of the tree.

    tools/check_vocabulary.py [root of the tree]

The project uses the terms of the field and plain sentences;
docs/concepts/glossary.md defines the terms. `RETIRED` lists words that are no
longer used, their replacements, and where a word is still allowed.

Names are split before they are compared: `peer_rank` and `PeerRank` contain
the word "peer". A phrase is found even when a line break divides it.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import tree

# Files that are not checked: data, translations and this list.
SKIPPED = re.compile(
    r"LICENSE$|tests/(parity/golden|fuzz/corpus|formats/\w+)/|examples/data/"
    r"|docs/tutorials/(fr|it|ko|pt)/|src/tokenizers/text/.*_table"
    r"|tools/check_vocabulary\.py$|tests/tools/check_vocabulary_test\.py$")
TEXT = {
    ".cpp", ".h", ".hpp", ".cu", ".cuh", ".py", ".pyi", ".sh", ".bash",
    ".fish", ".zsh", ".cmake", ".in", ".md", ".txt", ".ipynb", ".yaml",
    ".toml", ".supp"}
NAMED = {"Makefile", "run"}


@dataclass(frozen=True)
class Retired:
    """A word or phrase, as a regular expression over lower-case words."""
    phrase: str
    instead: str
    # Regular expressions over the original line: a line that one of them
    # matches may use the phrase.
    allowed: tuple = ()
    # Files that may use the phrase, as regular expressions over their path.
    files: tuple = ()


RETIRED = (
    # Words for which the field has its own word.
    Retired(r"patience|patient|impatient", "timeout, deadline or wait limits",
            files=(r"lr_scheduler|reduce_lr_on_plateau|greedy_lr|make_schedulers",
                   r"transformers/optimization",
                   r"complete_nlp_example", r"python/tests/every_name")),
    Retired(r"peers?", "rank or other rank; Hugging Face Accelerate",
            (r"peer access|[Pp]eerAccess|reset by peer|veth peer",)),
    Retired(r"guests?", "joining machine"),
    Retired(r"farewell", "departure notice"),
    Retired(r"meetings?", "rendezvous"),
    Retired(r"shadows?", "low-precision copy; zero contribution",
            (r"-Wshadow",)),
    Retired(r"hosts?", "machine or node",
            (r"[Hh]ost memory|TPU host|hostfile|[Hh]ost compiler|HOST_COMPILER"
             r"|nvshmem_host|[Hh]ost_?[Bb]uffer|host_layout|is_host|Host: |://|/etc/hosts|hosts-|SlurmctldHost",)),
    Retired(r"anew", "again or from scratch"),
    Retired(r"shall", "must or will"),
    Retired(r"beside", "next to, alongside or compared with"),
    Retired(r"mine|theirs", "the name of the thing"),
    Retired(r"matrix products?", "matmul"),
    Retired(r"recordings?|recorded (steps?|models?)",
            "captured step or CUDA graph", (r"recorded_steps",),
            (r"profil", r"fault_points")),
    Retired(r"lanes?", "test suite", files=(r"src/cuda/kernels/",)),
    # Phrases that native speakers find hard to read.
    Retired(r"(the|an) own", "its own"),
    Retired(r"that of", "the noun again"),
    Retired(r"so many", "this many or up to N"),
    Retired(r"belongs? into", "belongs in"),
    Retired(r"lies|lie", "is or resides in"),
    Retired(r"in words", "with an error message"),
    Retired(r"from nothing", "from scratch"),
    Retired(r"without a word", "unexpectedly or without a message"),
    Retired(r"to be had", "available"),
    Retired(r"at hand", "current"),
    Retired(r"whoever", "the caller or a rank that"),
    Retired(r"that is no(?! longer| more)", "that is not a"),
    Retired(r"none of (its|their|the|these|those|our) \w+ is", "no … is"),
    Retired(r"in peace", "normally or cleanly"),
)

# Names that do not describe a variable.
EMPTY_NAME = re.compile(
    r"(?:[\w>&*\]]|\bauto) &?(given|mine|theirs|how|one|what)(?=\s*(?:=[^=]|[;,){:\[]))")
SOURCE = {".cpp", ".h", ".hpp", ".cu", ".cuh"}


def is_text(name):
    return (name.suffix in TEXT or name.name in NAMED) \
        and not SKIPPED.search(name.as_posix())


def words_of(line):
    """Returns the line in lower case, with names split into words."""
    line = re.sub(r"^\s*(?:///?<?|#+|\*|>)\s*", "", line)
    line = re.sub(r"([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])", r"\1\3 \2\4", line)
    return re.sub(r"[_\s]+", " ", line).strip().lower()


class Words:
    """The words of a file as one text that maps positions to lines."""

    def __init__(self, lines):
        self.text = ""
        self.starts = []
        for line in lines:
            self.starts.append(len(self.text))
            self.text += words_of(line) + " "

    def line_at(self, position):
        """Returns the index of the line that contains this position."""
        low, high = 0, len(self.starts)
        while high - low > 1:
            middle = (low + high) // 2
            if self.starts[middle] <= position:
                low = middle
            else:
                high = middle
        return low


def check_phrases(name, lines):
    if name.name == "CHANGELOG.md":  # The tables contain old names.
        lines = ["" if re.match(r"\s*\|", line) else line for line in lines]
    words = Words(lines)
    for retired in RETIRED:
        if any(re.search(pattern, name.as_posix()) for pattern in retired.files):
            continue
        for match in re.finditer(rf"\b(?:{retired.phrase})\b", words.text):
            index = words.line_at(match.start())
            if not any(re.search(p, lines[index]) for p in retired.allowed):
                yield (f"{name}:{index + 1}: `{match.group()}` is retired; "
                       f"write {retired.instead}")


def code_of(line):
    """Returns the line without its strings and comments."""
    line = re.sub(r'"(?:[^"\\]|\\.)*"', '""', line)
    return line.split("//")[0]


def check_names(name, lines):
    if name.suffix not in SOURCE:
        return
    for number, line in enumerate(lines, 1):
        for match in EMPTY_NAME.finditer(code_of(line)):
            yield (f"{name}:{number}: a variable called `{match.group(1)}` "
                   "says nothing; use a descriptive name")


def check_file(root, name):
    lines = (root / name).read_text(encoding="utf-8").splitlines()
    yield from check_phrases(name, lines)
    yield from check_names(name, lines)


def check(root):
    findings = []
    for name in tree.files(root):
        if is_text(name):
            findings += check_file(root, name)
    return findings


if __name__ == "__main__":
    ROOT = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else tree.ROOT
    sys.exit(tree.report("vocabulary", check(ROOT)))
