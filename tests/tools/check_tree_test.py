# SPDX-License-Identifier: Apache-2.0
import unittest

import check_tree
from fixture import TreeTest

LICENSE = "// SPDX-License-Identifier: Apache-2.0\n"
CMAKE_LICENSE = "# SPDX-License-Identifier: Apache-2.0\n"


def document(marker, *lines):
    block = "\n".join(lines)
    return f"<!-- {marker} -->\n```text\n{block}\n```\n"


class CheckTree(TreeTest):
    def setUp(self):
        super().setUp()
        self.write("src/base/a.cpp", LICENSE)
        self.write("README.md", document("folder map", "src/   sources"))
        self.write("ARCHITECTURE.md", document("code map", "src/base/  lowest"))

    def check(self):
        return check_tree.check(self.root)

    def test_accepts_a_correct_tree(self):
        self.assert_findings(self.check())

    def test_finds_a_test_that_is_not_listed(self):
        self.write("README.md", document("folder map", "src/", "tests/"))
        self.write("tests/unit/CMakeLists.txt",
                   CMAKE_LICENSE + "accelerate_add_tests(unit/a SOURCES a/b_test.cpp)\n")
        self.write("tests/unit/a/b_test.cpp", LICENSE)
        self.write("tests/unit/a/lost_test.cpp", LICENSE)

        self.assert_findings(
            self.check(),
            "tests/unit/a/lost_test.cpp: no CMakeLists.txt under tests/ lists it")

    def test_finds_an_example_that_nothing_runs(self):
        self.write("README.md", document("folder map", "src/", "examples/"))
        self.write("examples/CMakeLists.txt",
                   CMAKE_LICENSE + "accelerate_add_example(run ARGS 2)\n")
        self.write("examples/run.cpp", LICENSE)
        self.write("examples/lost.cpp", LICENSE)

        self.assert_findings(
            self.check(), "examples/lost.cpp: not registered with accelerate_add_example")

    def test_finds_missing_and_extra_folders_in_the_folder_map(self):
        self.write("README.md", document("folder map", "old/  was removed"))

        self.assert_findings(
            self.check(),
            "README.md: src/ is missing from the folder map",
            "README.md: the folder map lists old/, which does not exist")

    def test_finds_a_layer_that_is_missing_from_the_code_map(self):
        self.write("src/comm/a.cpp", LICENSE)

        self.assert_findings(
            self.check(), "ARCHITECTURE.md: src/comm/ is missing from the code map")

    def test_finds_a_layer_that_the_code_map_lists_twice(self):
        self.write("ARCHITECTURE.md", document(
            "code map", "src/base/  lowest", "src/base/  again"))

        self.assert_findings(
            self.check(), "ARCHITECTURE.md: the code map lists src/base/ twice")

    def test_requires_the_maps(self):
        self.write("README.md", "nothing\n")

        self.assert_findings(
            self.check(), "README.md: no block follows `<!-- folder map -->`")

    def architecture(self, text):
        self.write("ARCHITECTURE.md",
                   document("code map", "src/base/  lowest") + text + "\n")
        self.write("src/base/a.cpp", LICENSE + "class Reader { void read(); };\n")
        return self.check()

    def test_accepts_what_the_architecture_mentions(self):
        self.assert_findings(self.architecture(
            "`src/base/a.cpp`, `base/a`, `src/base`, `src/*/a.cpp`, `a.cpp`, "
            "`Reader`, `Reader::read(1)`, `torch/torch.h`, `// a comment`"))

    def test_finds_a_path_in_the_architecture_that_does_not_exist(self):
        self.assert_findings(
            self.architecture("`base/old.cpp` and `old.cpp`"),
            "ARCHITECTURE.md: no file, folder or test is named `base/old.cpp`",
            "ARCHITECTURE.md: no file, folder or test is named `old.cpp`")

    def test_finds_a_name_in_the_architecture_that_no_source_has(self):
        self.assert_findings(
            self.architecture("`Reader::write` and `OldReader`"),
            "ARCHITECTURE.md: no source mentions `OldReader`",
            "ARCHITECTURE.md: no source mentions `Reader::write`")

    def snippet(self, body, name="a"):
        self.write("src/base/a.cpp", LICENSE +
                   "void f() {\n  // region: a\n  int x;\n    y();\n  // endregion\n}\n")
        self.write("GUIDE.md", f"<!-- region: src/base/a.cpp#{name} -->\n"
                               f"```cpp\n{body}```\n")
        return self.check()

    def test_accepts_a_snippet_that_equals_its_region(self):
        self.assert_findings(self.snippet("int x;\n  y();\n"))

    def test_a_region_can_contain_regions(self):
        path = self.write("a.py", "# region: a\nx\n# region: b\ny\n# endregion\nz\n# endregion\n")

        self.assertEqual(check_tree.region(path, "a"), "x\ny\nz\n")
        self.assertEqual(check_tree.region(path, "b"), "y\n")

    def test_finds_a_snippet_that_differs(self):
        self.assert_findings(
            self.snippet("int z;\n"),
            "GUIDE.md:2: the block differs from src/base/a.cpp#a")

    def test_finds_a_region_that_does_not_exist(self):
        self.assert_findings(
            self.snippet("int x;\n", name="b"),
            "GUIDE.md:2: src/base/a.cpp has no region `b`")

    def test_finds_a_block_without_a_region(self):
        self.write("GUIDE.md", "```cpp\nint x;\n```\n")

        self.assert_findings(
            self.check(), "GUIDE.md:1: the block does not name a region")

    def test_finds_a_broken_link(self):
        self.write("GUIDE.md", "[a](README.md#top) [b](missing.md) [c](https://x.y)\n")

        self.assert_findings(
            self.check(), "GUIDE.md: the link to missing.md is broken")

    def test_finds_a_page_that_the_index_does_not_link_to(self):
        self.write("README.md", document("folder map", "src/", "docs/"))
        self.write("docs/index.md", "[a](guides/a.md)\n")
        self.write("docs/guides/a.md")
        self.write("docs/guides/b.md")

        self.assert_findings(
            self.check(), "docs/guides/b.md: docs/index.md does not link to it")

    def test_finds_a_source_without_the_license_line(self):
        self.write("src/base/a.cpp", "int x;\n")

        self.assert_findings(
            self.check(),
            "src/base/a.cpp: the SPDX line is missing from its first two lines")

    def test_finds_a_comment_that_continues_the_license_line(self):
        self.write("src/base/a.cpp", LICENSE.rstrip() + " Adds numbers.\n")

        self.assert_findings(
            self.check(),
            "src/base/a.cpp: the SPDX line is missing from its first two lines")


if __name__ == "__main__":
    unittest.main()
