# SPDX-License-Identifier: Apache-2.0
import shutil
import subprocess
import unittest

import check_runpaths
from fixture import TreeTest


class CheckRunpaths(TreeTest):
    def build(self, *flags):
        self.write("a.c", "int main(void) { return 0; }\n")
        subprocess.run(["cc", "a.c", "-o", "a.out", *flags], cwd=self.root, check=True)

    def setUp(self):
        super().setUp()
        if not shutil.which("cc"):
            self.skipTest("no C compiler")

    def test_accepts_absolute_paths_and_paths_relative_to_the_file(self):
        self.build("-Wl,-rpath,/opt/torch/lib:$ORIGIN/../lib")

        self.assert_findings(check_runpaths.check([self.root]))

    def test_rejects_an_empty_element(self):
        self.build("-Wl,-rpath,/opt/torch/lib::")

        self.assert_findings(
            check_runpaths.check([self.root]),
            f"{self.root}/a.out: RUNPATH [/opt/torch/lib::] has the element ``, which "
            "the loader looks up in the current folder")

    def test_rejects_a_relative_element(self):
        self.build("-Wl,-rpath,lib", "-Wl,--disable-new-dtags")

        self.assert_findings(
            check_runpaths.check([self.root]),
            f"{self.root}/a.out: RPATH [lib] has the element `lib`, which the loader "
            "looks up in the current folder")


if __name__ == "__main__":
    unittest.main()
