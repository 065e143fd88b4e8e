# SPDX-License-Identifier: Apache-2.0
import unittest
from pathlib import Path

import check_vocabulary
from fixture import TreeTest


class CheckVocabulary(TreeTest):
    def check(self):
        return check_vocabulary.check(self.root)

    def test_accepts_the_words_of_the_field(self):
        self.write("docs/page.md", "Rank 2 timed out in host memory.\n")

        self.assert_findings(self.check())

    def test_names_file_line_and_replacement_of_a_retired_phrase(self):
        self.write("docs/page.md", "A heading\n\nlook for the own error\n")

        self.assert_findings(
            self.check(),
            "docs/page.md:3: `the own` is retired; write its own")

    def test_finds_a_phrase_across_a_line_break_of_a_comment(self):
        self.write("src/a.cpp", "// Keeps so\n// many checkpoints.\n")

        self.assert_findings(
            self.check(),
            "src/a.cpp:1: `so many` is retired; write this many or up to N")

    def test_splits_names_into_words(self):
        self.write("src/a.h", "struct GuestMachine;\nint guest_rank();\n")

        self.assert_findings(
            self.check(),
            "src/a.h:1: `guest` is retired; write joining machine",
            "src/a.h:2: `guest` is retired; write joining machine")

    def test_an_exception_allows_a_word_on_its_line_only(self):
        self.write("src/a.cpp", "// GPUs with peer access\n// a peer died\n")

        self.assert_findings(
            self.check(),
            "src/a.cpp:2: `peer` is retired; "
            "write rank or other rank; Hugging Face Accelerate")

    def test_an_exception_allows_a_word_in_its_files_only(self):
        self.write("include/accelerate/lr_scheduler.h", "int patience = 10;\n")
        self.write("src/comm/group.h", "int patience = 10;\n")

        self.assert_findings(
            self.check(),
            "src/comm/group.h:1: `patience` is retired; "
            "write timeout, deadline or wait limits")

    def test_finds_variables_whose_names_say_nothing(self):
        self.write("src/a.cpp", "void f(const Options& given) {\n"
                                "  for (const auto& one : given.all) {\n")

        self.assert_findings(
            self.check(),
            "src/a.cpp:1: a variable called `given` says nothing; "
            "use a descriptive name",
            "src/a.cpp:2: a variable called `one` says nothing; "
            "use a descriptive name")

    def test_reads_no_variables_in_strings_and_comments(self):
        self.write("src/a.cpp", '// the other one;\nsay("for one, two");\n')

        self.assert_findings(self.check())

    def test_every_retired_word_has_a_replacement_that_is_not_retired(self):
        for retired in check_vocabulary.RETIRED:
            lines = [retired.instead]
            findings = check_vocabulary.check_phrases(Path("docs/page.md"), lines)

            self.assertEqual(list(findings), [])


if __name__ == "__main__":
    unittest.main()
