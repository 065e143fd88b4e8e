# SPDX-License-Identifier: Apache-2.0
"""Starts workers for tests with the `accelerate` command, as a user would."""

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

from accelerate_cpp import launch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLES = os.path.join(ROOT, "examples", "python")
LIMIT = 120


def start(arguments: list, **kwargs) -> subprocess.Popen:
    """Starts `accelerate launch` on the CPU, with this Python and its modules."""
    variables = launch.environment()
    variables["PYTHONPATH"] = os.pathsep.join([os.path.dirname(__file__), *filter(None, sys.path)])
    variables["OMP_NUM_THREADS"] = "1"
    variables["CUDA_VISIBLE_DEVICES"] = ""
    return subprocess.Popen(
        [launch.command_path(), "launch", "--cpu", *arguments],
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **kwargs,
    )


def finish(process, limit: float = LIMIT) -> tuple:
    with process:
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return process.returncode, out, err


class ProcessTest(unittest.TestCase):
    """Runs Python code in several processes."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, code: str, name: str = "worker.py") -> str:
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(textwrap.dedent(code))
        return path

    def run_on(self, processes: int, code: str, *args: str) -> str:
        """Returns the output of the processes; fails unless all exit with code 0."""
        arguments = ["--num_processes", str(processes), self.write(code), *args]
        exit_code, out, err = finish(start(arguments))
        self.assertEqual(exit_code, 0, out + err)
        return out
