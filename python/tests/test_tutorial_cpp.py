# SPDX-License-Identifier: Apache-2.0
"""Runs notebooks/tutorial_cpp.ipynb in a new kernel: it trains in two processes and learns.

Needs nbclient, clang-repl 19 and a build: ACCELERATE_BIN is the folder with its programs.
"""

import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import nbclient
import nbformat

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
LIMIT = int(os.environ.get("ACCELERATE_CELL_LIMIT", "600"))  # seconds per cell


class TutorialCpp(unittest.TestCase):
    def test_runs_in_a_new_kernel_and_learns(self):
        with tempfile.TemporaryDirectory() as prefix:
            command = os.path.join(os.environ["ACCELERATE_BIN"], "accelerate")
            subprocess.run([command, "jupyter", "install", "--prefix", prefix], check=True)
            os.environ["JUPYTER_PATH"] = os.path.join(prefix, "share", "jupyter")
            notebook = nbformat.read(NOTEBOOKS / "tutorial_cpp.ipynb", as_version=4)
            client = nbclient.NotebookClient(
                notebook,
                timeout=LIMIT,
                startup_timeout=LIMIT,
                kernel_name="accelerate-cpp",
                resources={"metadata": {"path": str(NOTEBOOKS)}},
            )
            client.execute()
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        self.assertEqual(self.output(cells[0]), "87\n")
        epochs = re.findall(r"^epoch (\d): accuracy ([0-9.]+)$", self.output(cells[-1]), re.M)
        self.assertEqual([epoch for epoch, _ in epochs], ["0", "1", "2", "3"])
        self.assertGreater(float(epochs[-1][1]), 0.9)

    def output(self, cell):
        return "".join(out["text"] for out in cell.outputs if out.get("name") == "stdout")


if __name__ == "__main__":
    unittest.main()
