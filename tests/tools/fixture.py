# SPDX-License-Identifier: Apache-2.0
"""A temporary tree for the tests of the checks."""

import tempfile
import unittest
from pathlib import Path


class TreeTest(unittest.TestCase):
    """Each test gets an empty folder `self.root`."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, name, text=""):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def assert_findings(self, findings, *expected):
        self.assertEqual(sorted(findings), sorted(expected))
