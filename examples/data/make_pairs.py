#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the data set in this folder: pairs of sentences that do or do not mean the same thing.

    examples/data/make_pairs.py [--check]

Writes train.csv, validation.csv and vocab.txt into this folder, identical on
every machine and with Python 3.8 or later. With --check, writes nothing and
exits with 0 if the files are up to date.

A meaning consists of a person, an action, an object, and whether the person
ever does the action. Each person, action and object has two names, and a
sentence is in the singular, the plural or the passive. A pair with label 1 has
two sentences with the same meaning. In a pair with label 0, one, two or all
parts of the meaning differ. A single sentence does not reveal the label, and
train.csv contains no pair from validation.csv, in either order.
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

# Each entry consists of a usual name and an alternative name.
PERSONS = [("doctor", "medic"), ("lawyer", "attorney"), ("teacher", "tutor")]
ACTIONS = [("clean", "polish"), ("want", "request"), ("paint", "sketch")]
OBJECTS = [("car", "sedan"), ("photo", "picture"), ("sofa", "couch")]
PARTS = ["person", "action", "object", "ever"]
OTHER_NAME_PERCENT = 25
PASSIVE_PERCENT = 10
NEVER_PERCENT = 35

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
# A word is a stem plus an optional ending, as in a real vocabulary.
ENDINGS = ["ed", "es", "s"]


class Random:
    """A generator that does not depend on the Python version."""

    def __init__(self, seed):
        self.state = seed

    def below(self, bound):
        """An integer from 0 to bound - 1 (splitmix64)."""
        mask = (1 << 64) - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return (z ^ (z >> 31)) % bound

    def chance(self, percent):
        return self.below(100) < percent

    def other(self, count, index):
        """An integer below `count` other than `index`."""
        return (index + 1 + self.below(count - 1)) % count

    def shuffle(self, items):
        for i in range(len(items) - 1, 0, -1):
            j = self.below(i + 1)
            items[i], items[j] = items[j], items[i]


def make_meaning(random):
    """A meaning, as a dictionary of indices into the tables above."""
    return {"person": random.below(len(PERSONS)), "action": random.below(len(ACTIONS)),
            "object": random.below(len(OBJECTS)), "ever": not random.chance(NEVER_PERCENT)}


def change_part(random, meaning, part):
    """Changes one part of a meaning."""
    if part == "ever":
        meaning["ever"] = not meaning["ever"]
    else:
        table = {"person": PERSONS, "action": ACTIONS, "object": OBJECTS}[part]
        meaning[part] = random.other(len(table), meaning[part])


def other_meaning(random, meaning):
    """A different meaning: a random one, or one with one or two parts changed."""
    kind = random.below(10)
    while True:
        changed = make_meaning(random) if kind < 5 else dict(meaning)
        for _ in range(0 if kind < 5 else 2 if kind < 8 else 1):
            change_part(random, changed, PARTS[random.below(len(PARTS))])
        if changed != meaning:
            return changed


def name(random, names):
    return names[1 if random.chance(OTHER_NAME_PERCENT) else 0]


def with_article(noun):
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def with_s(word):
    return word + ("es" if word.endswith(("ch", "sh")) else "s")


def make_sentence(random, meaning):
    """A random sentence that expresses the meaning."""
    person = name(random, PERSONS[meaning["person"]])
    action = name(random, ACTIONS[meaning["action"]])
    object_name = name(random, OBJECTS[meaning["object"]])
    never = "" if meaning["ever"] else "never "
    if random.chance(PASSIVE_PERCENT):
        text = f"{with_s(object_name)} are {never}{action}ed by {with_s(person)}."
    elif random.chance(50):
        text = f"{with_s(person)} {never}{action} {with_s(object_name)}."
    else:
        text = f"{with_article(person)} {never}{with_s(action)} {with_article(object_name)}."
    return text[0].upper() + text[1:]


def make_rows(random, count, used_pairs):
    """`count` rows, half with each label. Skips pairs in `used_pairs`, and adds the new pairs to it."""
    rows = []
    for label in (1, 0):
        made = 0
        while made < count // 2:
            meaning = make_meaning(random)
            first = make_sentence(random, meaning)
            second = make_sentence(random, meaning if label else other_meaning(random, meaning))
            pair = tuple(sorted((first, second)))
            if first == second or pair in used_pairs:
                continue
            used_pairs.add(pair)
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
    """A WordPiece vocabulary: stems, endings, and single letters for other words."""
    stems = {word for table in (PERSONS, ACTIONS, OBJECTS) for names in table for word in names}
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
    """Returns the content of each file, by name."""
    random = Random(SEED)
    used_pairs = set()
    rows = make_rows(random, VALIDATION_ROWS + TRAIN_ROWS, used_pairs)
    validation, train = rows[:VALIDATION_ROWS], rows[VALIDATION_ROWS:]
    return {
        "train.csv": to_csv(train),
        "validation.csv": to_csv(validation),
        "vocab.txt": "\n".join(make_vocabulary(rows)) + "\n",
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true",
                        help="write nothing; check that the files are up to date")
    arguments = parser.parse_args()
    differ = []
    for file, text in make_files().items():
        path = FOLDER / file
        if not arguments.check:
            path.write_bytes(text.encode("utf-8"))
        elif not path.exists() or path.read_bytes() != text.encode("utf-8"):
            differ.append(file)
    if differ:
        print(f"{', '.join(differ)}: not up to date; run make_pairs.py")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
