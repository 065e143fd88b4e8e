# SPDX-License-Identifier: Apache-2.0
"""Runs the Python part of the tutorial: its scripts, and its notebooks in new kernels.

Needs nbclient and ipykernel. ACCELERATE_CELL_LIMIT is the time limit of a cell in seconds.
"""

import ast
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

import nbclient
import nbformat
import support

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "examples" / "python"
NOTEBOOKS = ROOT / "notebooks"
LIMIT = int(os.environ.get("ACCELERATE_CELL_LIMIT", "600"))


def environment() -> dict:
    """Environment variables for tests on the CPU, with the modules of this Python."""
    path = os.pathsep.join(filter(None, sys.path))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


class Scripts(unittest.TestCase):
    def run_script(self, name: str) -> str:
        result = subprocess.run(
            [sys.executable, str(SCRIPTS / name)], env=environment(), capture_output=True, text=True, timeout=LIMIT
        )
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def accuracy(self, output: str) -> float:
        return float(re.search(r"^accuracy ([0-9.]+)", output, re.M)[1])

    def test_the_plain_loop_runs(self):
        self.run_script("plain_train.py")

    def test_the_changed_loop_learns_in_two_processes(self):
        process = support.start(["--num_processes", "2", str(SCRIPTS / "train.py")])
        try:
            out, err = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        self.assertEqual(process.returncode, 0, out + err)
        self.assertIn(" on 800 pairs", out)
        self.assertGreater(self.accuracy(out), 0.8)

    def test_the_notebook_function_learns(self):
        self.assertGreater(self.accuracy(self.run_script("notebook_train.py")), 0.8)


class Notebooks(unittest.TestCase):
    def execute(self, name: str) -> dict:
        """Runs all cells; returns the code cells by id."""
        notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
        client = nbclient.NotebookClient(
            notebook, timeout=LIMIT, kernel_name="python3", resources={"metadata": {"path": str(NOTEBOOKS)}}
        )
        client.execute(env=environment())
        return {cell.id: cell for cell in notebook.cells if cell.cell_type == "code"}

    def printed(self, cell, stream: str = "stdout") -> str:
        return "".join(output["text"] for output in cell.outputs if output.get("name") == stream)

    def picture(self, cell) -> str:
        """The single plot that `TrainingProgress` updates."""
        (picture,) = [output["data"]["text/html"] for output in cell.outputs if "text/html" in output.get("data", {})]
        self.assertTrue(picture.startswith("<svg"), picture[:100])
        return picture

    def value(self, cell) -> str:
        return next(output["data"]["text/plain"] for output in cell.outputs if output.output_type == "execute_result")

    def test_the_tutorial(self):
        cells = self.execute("tutorial_python.ipynb")
        self.assertIn("Launching training on 2 processes", self.printed(cells["launch"]))
        self.assertRegex(self.printed(cells["launch"], "stderr"), r"100%\|█+\| (\d+)/\1 ")
        self.assertGreater(float(re.search(r"^accuracy ([0-9.]+)", self.printed(cells["launch"]), re.M)[1]), 0.8)
        self.assertIn("trained on 2 processes", self.printed(cells["cpp-launch"]))

    def test_the_full_example(self):
        cells = self.execute("simple_nlp_example.ipynb")
        self.assertIn("6000 pairs", self.printed(cells["data"]))
        self.assertRegex(self.value(cells["batch"]), r"'labels': torch\.Size\(\[24\]\)")
        self.assertRegex(self.value(cells["batch"]), r"'input_ids': torch\.Size\(\[24, \d+\]\)")
        self.assertGreater(int(self.value(cells["model"])), 100_000)
        history = ast.literal_eval(self.value(cells["launch"]))
        self.assertEqual(len(history), 4)
        self.assertGreater(history[-1], 0.9)
        self.assertIn("1000/1000", self.printed(cells["launch"], "stderr"))
        self.assertIn("step 1000 of 1000", self.picture(cells["launch"]))


if __name__ == "__main__":
    unittest.main()
