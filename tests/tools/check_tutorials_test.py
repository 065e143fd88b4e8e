# SPDX-License-Identifier: Apache-2.0
import json
import unittest

import check_tutorials
from fixture import TreeTest

PAGE = "docs/tutorials/a.md"
CODE = "<!-- region: a.py#x -->\n```python\none()\n```\n"
DIFF = "<!-- diff: a.py#x b.py#x -->\n```diff\n- one()\n+ two()\n```\n"
SHELL = "```sh\nmake\n```\n"


def links(own):
    targets = {"en": PAGE, **{name: f"docs/tutorials/{name}/a.md"
                              for name in check_tutorials.LANGUAGES}}
    up = "" if own == "en" else "../"
    return " ".join(
        f"[{name}]({up}{target[len('docs/tutorials/'):]})"
        for name, target in targets.items() if name != own) + "\n"


class CheckTutorials(TreeTest):
    def setUp(self):
        super().setUp()
        self.write("a.py", "# region: x\none()\n# endregion\n")
        self.write("b.py", "# region: x\ntwo()\n# endregion\n")
        self.translate("en", CODE + DIFF + SHELL)
        for language in check_tutorials.LANGUAGES:
            self.translate(language, CODE + DIFF + SHELL)

    def translate(self, language, body, head=None):
        name = PAGE if language == "en" else f"docs/tutorials/{language}/a.md"
        self.write(name, (links(language) if head is None else head) + body)

    def check(self):
        return check_tutorials.check(self.root)

    def test_accepts_the_same_blocks_in_all_languages(self):
        self.assert_findings(self.check())

    def test_leaves_pages_without_translations_alone(self):
        self.write("docs/tutorials/b.md", "```python\nfree()\n```\n")

        self.assert_findings(self.check())

    def test_finds_a_language_that_is_missing(self):
        (self.root / "docs/tutorials/ko/a.md").unlink()

        self.assertIn(
            "docs/tutorials/ko/a.md: does not exist, but a.md has other translations",
            self.check())

    def test_finds_a_block_that_is_translated(self):
        self.translate("fr", CODE + DIFF + SHELL.replace("make", "faire"))

        self.assert_findings(
            self.check(), f"docs/tutorials/fr/a.md:11: block 3 differs from {PAGE}")

    def test_finds_a_link_that_is_missing(self):
        more = "[b](../../b.py)\n"
        self.translate("en", CODE + DIFF + SHELL + "[b](../../b.py)\n")
        for language in check_tutorials.LANGUAGES:
            self.translate(language, CODE + DIFF + SHELL + more.replace("../..", "../../.."))
        self.assert_findings(self.check())

        self.translate("pt", CODE + DIFF + SHELL)

        self.assert_findings(
            self.check(), f"docs/tutorials/pt/a.md: does not link to b.py, but {PAGE} does")

    def test_finds_blocks_in_another_order(self):
        self.translate("it", DIFF + CODE + SHELL)

        self.assert_findings(
            self.check(), f"docs/tutorials/it/a.md:3: block 1 differs from {PAGE}")

    def test_finds_a_block_that_is_missing(self):
        self.translate("pt", CODE + DIFF)

        self.assert_findings(
            self.check(), f"docs/tutorials/pt/a.md: has 2 blocks, but {PAGE} has 3")

    def test_finds_code_that_differs_from_its_region(self):
        self.write("a.py", "# region: x\nthree()\n# endregion\n")

        findings = self.check()

        self.assertIn(f"{PAGE}:3: the block differs from a.py#x", findings)
        self.assertIn(f"{PAGE}:7: the block differs from a.py#x b.py#x", findings)

    def test_finds_code_without_a_region(self):
        self.translate("en", "```python\none()\n```\n")

        self.assertIn(f"{PAGE}:2: the block does not name a region", self.check())

    def test_finds_a_region_that_does_not_exist(self):
        self.translate("en", CODE.replace("#x", "#y"))

        self.assertIn(f"{PAGE}:3: a.py has no region `y`", self.check())

    def test_finds_a_page_that_does_not_link_to_its_translations(self):
        self.translate("ko", CODE + DIFF + SHELL, head="[en](../a.md)\n")

        self.assert_findings(self.check(), *(
            f"docs/tutorials/ko/a.md: its first lines do not link to docs/tutorials/{name}/a.md"
            for name in ("fr", "it", "pt")))

    def notebook(self, source, region="a.py#x"):
        self.write("n.ipynb", json.dumps({"cells": [
            {"id": "free", "source": ["other()"]},
            {"id": "tied", "metadata": {"region": region}, "source": source}]}))
        return self.check()

    def test_accepts_a_cell_that_equals_its_region(self):
        self.assert_findings(self.notebook(["one()"]))

    def test_accepts_a_magic_above_a_region(self):
        self.assert_findings(self.notebook(["%%time\n", "one()"]))

    def test_finds_a_cell_that_differs(self):
        self.assert_findings(self.notebook(["two()"]),
                             "n.ipynb: the cell `tied` differs from a.py#x")

    def test_finds_a_cell_whose_region_does_not_exist(self):
        self.assert_findings(self.notebook(["one()"], "missing.py#x"),
                             "n.ipynb: missing.py does not exist")

    def test_a_block_can_be_a_cell(self):
        self.notebook(["one()"])
        body = CODE.replace("a.py#x", "n.ipynb#tied")
        for language in ["en", *check_tutorials.LANGUAGES]:
            self.translate(language, body)

        self.assert_findings(self.check())

    def test_a_difference_keeps_equal_lines(self):
        self.assertEqual(check_tutorials.difference("a\n\nb\nc\n", "a\n\nx\nc\nd\n"),
                         "  a\n\n- b\n+ x\n  c\n+ d\n")


if __name__ == "__main__":
    unittest.main()
