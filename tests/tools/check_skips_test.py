# SPDX-License-Identifier: Apache-2.0
import unittest

import check_skips
from fixture import TreeTest


def case(name, skipped=False, output=""):
    inside = '<skipped message="x"/>' if skipped else ""
    return (f'<testcase name="{name}">{inside}'
            f"<system-out>{output}</system-out></testcase>")


class CheckSkips(TreeTest):
    def check(self, cases, expected):
        results = self.write("tests.xml", f"<testsuite>{''.join(cases)}</testsuite>")
        return check_skips.check(results, self.write("expected_skips.txt", expected))

    def test_accepts_a_skip_that_is_on_the_list(self):
        self.assert_findings(
            self.check([case("gpu/a.B.C", skipped=True)], "gpu/*  # no GPU here\n"))

    def test_finds_a_skip_that_is_not_on_the_list(self):
        self.assert_findings(
            self.check([case("a.B.C", skipped=True), case("a.B.D")], ""),
            "a.B.C was skipped but is not in expected_skips.txt")

    def test_finds_a_skip_inside_a_sharded_binary(self):
        output = "[ RUN ] B.C\n[  SKIPPED ] B.C (0 ms)\n[       OK ] B.D (0 ms)\n"

        self.assert_findings(
            self.check([case("ranks/a.shard_1", output=output)], ""),
            "ranks/a.B.C was skipped but is not in expected_skips.txt")

    def test_finds_a_line_that_matches_no_test(self):
        self.assert_findings(
            self.check([case("a.B.C")], "missing.*  # reason\n"),
            "expected_skips.txt: no test matches `missing.*`")

    def test_requires_a_reason(self):
        self.assert_findings(
            self.check([case("a.B.C", skipped=True)], "a.B.C\n"),
            "expected_skips.txt:1: `a.B.C` has no reason")

    def test_fails_when_no_test_ran(self):
        self.assertIn("contains no tests", self.check([], "")[0])


if __name__ == "__main__":
    unittest.main()
