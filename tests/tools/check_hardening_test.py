# SPDX-License-Identifier: Apache-2.0
import shutil
import subprocess
import unittest

import check_hardening
from fixture import TreeTest

SOURCE = """
#include <stdio.h>
int main(int argc, char** argv) {
  char text[16];
  snprintf(text, argc + 10, "%s", argv[0]);
  return text[0];
}
"""
STACK = ["-fstack-protector-strong"]
FORTIFY = ["-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]
RELRO = ["-Wl,-z,relro"]
NOW = ["-Wl,-z,now"]


class CheckHardening(TreeTest):
    def build(self, *flags):
        self.write("a.c", SOURCE)
        subprocess.run(["cc", "a.c", "-o", "a.out", *flags], cwd=self.root, check=True)

    def setUp(self):
        super().setUp()
        if not shutil.which("cc"):
            self.skipTest("no C compiler")

    def test_accepts_a_program_with_all_protections(self):
        self.build(*STACK, *FORTIFY, *RELRO, *NOW)

        self.assert_findings(check_hardening.check([self.root]))

    def test_names_each_protection_that_is_missing(self):
        self.build("-O2", "-U_FORTIFY_SOURCE", "-fno-stack-protector", "-Wl,-z,norelro", "-Wl,-z,lazy")

        self.assert_findings(
            check_hardening.check([self.root]),
            f"{self.root}/a.out: no RELRO; link it with `-Wl,-z,relro`",
            f"{self.root}/a.out: symbols are bound lazily; link it with `-Wl,-z,now`",
            f"{self.root}/a.out: no stack protector; compile it with `-fstack-protector-strong`",
            f"{self.root}: no file calls a fortified function; compile with `-D_FORTIFY_SOURCE=2` "
            "and optimization")

    def test_rejects_relro_that_is_not_complete(self):
        self.build(*STACK, *FORTIFY, *RELRO, "-Wl,-z,lazy")

        self.assert_findings(
            check_hardening.check([self.root]),
            f"{self.root}/a.out: symbols are bound lazily; link it with `-Wl,-z,now`")


if __name__ == "__main__":
    unittest.main()
