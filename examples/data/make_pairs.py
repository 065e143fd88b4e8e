#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the data set of this folder: pairs of sentences that mean the same or not.

    examples/data/make_pairs.py [--check]

Writes train.csv, validation.csv and vocab.txt beside itself; the same files on
every host and with every Python from 3.8 on. With --check nothing is written:
the exit code tells whether the files are what the script makes.

A meaning is who does what to what, and whether they ever do. Persons, deeds and
things have two names each, and a sentence speaks of one, of many, or in the
passive. Two sentences of one meaning are a pair with label 1. For label 0 one
part of the meaning is exchanged, or two, or all. No sentence alone tells the
label, and no pair of validation.csv is in train.csv, in either order.
"""

import argparse
import csv
import io
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
TRAIN_ROWS = 6000
VALIDATION_ROWS = 800
SEED = 20261

# The usual name of each, and the other one.
PERSONS = [("doctor", "medic"), ("lawyer", "attorney"), ("teacher", "tutor")]
DEEDS = [("clean", "polish"), ("want", "request"), ("paint", "sketch")]
THINGS = [("car", "sedan"), ("photo", "picture"), ("sofa", "couch")]
PARTS = ["person", "deed", "thing", "ever"]
OTHER_NAME_PERCENT = 25
PASSIVE_PERCENT = 10
NEVER_PERCENT = 35

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
# Words are made of a stem and one of these, as in a real vocabulary.
ENDINGS = ["ed", "es", "s"]


class Random:
    """A generator of our own, so that no version of Python changes the data."""

    def __init__(self, seed):
        self.state = seed

    def below(self, bound):
        """A whole number from 0 to bound - 1 (splitmix64)."""
        mask = (1 << 64) - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return (z ^ (z >> 31)) % bound

    def chance(self, percent):
        return self.below(100) < percent

    def other(self, count, index):
        """A number below `count` that is not `index`."""
        return (index + 1 + self.below(count - 1)) % count

    def shuffle(self, items):
        for i in range(len(items) - 1, 0, -1):
            j = self.below(i + 1)
            items[i], items[j] = items[j], items[i]


def make_meaning(random):
    """A meaning as a dictionary of numbers into the tables above."""
    return {"person": random.below(len(PERSONS)), "deed": random.below(len(DEEDS)),
            "thing": random.below(len(THINGS)), "ever": not random.chance(NEVER_PERCENT)}


def exchange(random, meaning, part):
    """Makes one part of a meaning another."""
    if part == "ever":
        meaning["ever"] = not meaning["ever"]
    else:
        table = {"person": PERSONS, "deed": DEEDS, "thing": THINGS}[part]
        meaning[part] = random.other(len(table), meaning[part])


def other_meaning(random, meaning):
    """A meaning that differs: in any way, in two respects, or in one."""
    kind = random.below(10)
    while True:
        changed = make_meaning(random) if kind < 5 else dict(meaning)
        for _ in range(0 if kind < 5 else 2 if kind < 8 else 1):
            exchange(random, changed, PARTS[random.below(len(PARTS))])
        if changed != meaning:
            return changed


def name(random, names):
    return names[1 if random.chance(OTHER_NAME_PERCENT) else 0]


def with_article(noun):
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def with_s(word):
    return word + ("es" if word.endswith(("ch", "sh")) else "s")


def say(random, meaning):
    """One of the sentences that express a meaning."""
    person = name(random, PERSONS[meaning["person"]])
    deed = name(random, DEEDS[meaning["deed"]])
    thing = name(random, THINGS[meaning["thing"]])
    never = "" if meaning["ever"] else "never "
    if random.chance(PASSIVE_PERCENT):
        text = f"{with_s(thing)} are {never}{deed}ed by {with_s(person)}."
    elif random.chance(50):
        text = f"{with_s(person)} {never}{deed} {with_s(thing)}."
    else:
        text = f"{with_article(person)} {never}{with_s(deed)} {with_article(thing)}."
    return text[0].upper() + text[1:]


def make_rows(random, count, taken):
    """`count` rows, half of each label, no pair of `taken`, which grows."""
    rows = []
    for label in (1, 0):
        made = 0
        while made < count // 2:
            meaning = make_meaning(random)
            first = say(random, meaning)
            second = say(random, meaning if label else other_meaning(random, meaning))
            pair = tuple(sorted((first, second)))
            if first == second or pair in taken:
                continue
            taken.add(pair)
            rows.append((first, second, label))
            made += 1
    random.shuffle(rows)
    return rows


def to_csv(rows):
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("sentence1", "sentence2", "label"))
    writer.writerows(rows)
    return out.getvalue()


def make_vocabulary(rows):
    """A WordPiece vocabulary: stems, endings, and letters for all other words."""
    stems = {word for table in (PERSONS, DEEDS, THINGS) for names in table for word in names}
    words = set()
    for first, second, _ in rows:
        words.update((first + " " + second).lower().replace(".", "").split())
    for word in sorted(words):
        if not any(word in (stem, *(stem + ending for ending in ENDINGS)) for stem in stems):
            stems.add(word)
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    return SPECIAL + [".", ",", "!", "?", "'", '"'] + letters \
        + ["##" + letter for letter in letters] \
        + ["##" + ending for ending in ENDINGS if len(ending) > 1] \
        + sorted(stems - set(letters))


def make_files():
    """Each file's name and text."""
    random = Random(SEED)
    taken = set()
    rows = make_rows(random, VALIDATION_ROWS + TRAIN_ROWS, taken)
    validation, train = rows[:VALIDATION_ROWS], rows[VALIDATION_ROWS:]
    return {
        "train.csv": to_csv(train),
        "validation.csv": to_csv(validation),
        "vocab.txt": "\n".join(make_vocabulary(rows)) + "\n",
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true",
                        help="write nothing, compare with the files there are")
    arguments = parser.parse_args()
    differ = []
    for file, text in make_files().items():
        path = FOLDER / file
        if not arguments.check:
            path.write_bytes(text.encode("utf-8"))
        elif not path.exists() or path.read_bytes() != text.encode("utf-8"):
            differ.append(file)
    if differ:
        print(f"{', '.join(differ)}: not what make_pairs.py makes; run it")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
