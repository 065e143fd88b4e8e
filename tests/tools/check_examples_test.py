# SPDX-License-Identifier: Apache-2.0
import unittest

import check_examples
from fixture import TreeTest

BASE = """// SPDX
// The base.
int main() {
  // region: loop
  train();
  // endregion
}
"""


class CheckExamples(TreeTest):
    def check(self, feature, base=BASE):
        self.write("examples/base.cpp", base)
        self.write("examples/by_feature/one.cpp", feature)
        return check_examples.check(self.root)

    def test_accepts_the_base_and_a_block(self):
        self.assert_findings(self.check("""// SPDX
// One feature, with another opening.
int main() {
  // New code
  // region: feature
  prepare();
  // endregion
  // End of new code
  train();
}
"""))

    def test_finds_a_line_outside_the_blocks(self):
        findings = self.check("""// SPDX
int main() {
  train(3);
  // New code
  more();
  // End of new code
}
""")

        self.assertEqual(len(findings), 1)
        self.assertIn("one.cpp: differs from the base", findings[0])
        self.assertIn("-  train();", findings[0])
        self.assertIn("+  train(3);", findings[0])

    def test_finds_a_file_without_a_block(self):
        self.assert_findings(
            self.check(BASE),
            "examples/by_feature/one.cpp: no block begins with `// New code`")

    def test_finds_a_block_that_does_not_end(self):
        self.assert_findings(
            self.check("int main() {\n// New code\n  train();\n}\n"),
            "examples/by_feature/one.cpp: a block without `// End of new code`")

    def test_finds_nested_marks(self):
        self.assert_findings(
            self.check("int a;\n// New code\n// New code\n"
                       "// End of new code\n// End of new code\n"),
            "examples/by_feature/one.cpp: `// New code` inside a block",
            "examples/by_feature/one.cpp: `// End of new code` without "
            "`// New code`")

    def test_fails_when_there_is_no_example(self):
        self.write("examples/base.cpp", BASE)

        self.assert_findings(
            check_examples.check(self.root),
            "examples/by_feature/ has no example")

    def test_compares_the_complete_example_with_the_plain_one(self):
        block = "// New code\nint b;\n// End of new code\n"
        self.write("examples/nlp_example.cpp", "int a;\n")
        self.write("examples/complete_nlp_example.cpp", "int c;\n" + block)

        findings = self.check(BASE.replace("}\n", block + "}\n"))

        self.assertEqual(len(findings), 1)
        self.assertIn("complete_nlp_example.cpp: differs", findings[0])

    def test_excludes_nothing(self):
        self.assertEqual(check_examples.EXCLUDED, {})


if __name__ == "__main__":
    unittest.main()
