# SPDX-License-Identifier: Apache-2.0
import unittest

import slowest
from fixture import TreeTest


class Slowest(TreeTest):
    def test_uses_the_last_time_and_one_output_of_each_command(self):
        log = self.write(
            ".ninja_log",
            "# ninja log v5\n"
            "0\t9000\t1\ta.o\t11\n"
            "0\t2000\t1\ta.o\t11\n"
            "0\t500\t1\tlib.so.1\t22\n"
            "0\t500\t1\tlib.so\t22\n")

        self.assertEqual(slowest.read_log(log), {"a.o": 2.0, "lib.so.1": 0.5})

    def test_names_the_source_and_its_target(self):
        self.assertEqual(
            slowest.readable("src/CMakeFiles/accelerate_base.dir/base/error.cpp.o"),
            "src/base/error.cpp  (accelerate_base)")


if __name__ == "__main__":
    unittest.main()
