# SPDX-License-Identifier: Apache-2.0
"""`notebook_launcher` in a Jupyter kernel that is interrupted and restarted as from a notebook."""

import os
import sys
import tempfile
import time
import unittest

from jupyter_client import KernelManager

from accelerate_cpp import launch
from test_notebook import LIMIT, exited_within, read

CELL = """
def train(folder):
    import os
    import time

    path = os.path.join(folder, os.environ["RANK"])
    with open(path + ".part", "w") as file:
        file.write(str(os.getpid()))
    os.rename(path + ".part", path)
    time.sleep(300)

from accelerate_cpp import notebook_launcher
notebook_launcher(train, ({folder!r},), num_processes=2)
"""


class Kernel(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.manager = KernelManager()
        path = os.pathsep.join(filter(None, sys.path))
        self.manager.start_kernel(env={**launch.environment(), "PYTHONPATH": path})
        self.addCleanup(self.manager.cleanup_resources)
        self.addCleanup(self.manager.shutdown_kernel, now=True)
        self.client = self.manager.client()
        self.client.start_channels()
        self.addCleanup(self.client.stop_channels)
        self.client.wait_for_ready(timeout=LIMIT)

    def begin(self) -> tuple:
        """Starts a cell whose workers sleep; returns its message id and the process ids of the workers."""
        cell = self.client.execute(CELL.replace("{folder!r}", repr(self.folder)))
        paths = [os.path.join(self.folder, rank) for rank in "01"]
        limit = time.monotonic() + LIMIT
        while not all(map(os.path.exists, paths)):
            self.assertLess(time.monotonic(), limit, "the workers did not start")
            time.sleep(0.02)
        workers = [int(read(path)) for path in paths]
        for path in paths:
            os.remove(path)
        return cell, workers

    def reply(self, cell) -> dict:
        limit = time.monotonic() + LIMIT
        while True:
            message = self.client.get_shell_msg(timeout=max(0.1, limit - time.monotonic()))
            if message["parent_header"].get("msg_id") == cell:
                return message["content"]

    def test_interrupt_then_restart(self):
        cell, workers = self.begin()
        self.manager.interrupt_kernel()
        self.assertEqual(self.reply(cell)["ename"], "KeyboardInterrupt")
        self.assertTrue(exited_within(workers, 5))
        self.assertEqual(self.reply(self.client.execute("again = 1"))["status"], "ok")

        _, workers = self.begin()
        self.manager.restart_kernel(now=True)
        self.assertTrue(exited_within(workers, 5))
        self.client.wait_for_ready(timeout=LIMIT)
        self.assertEqual(self.reply(self.client.execute("again"))["ename"], "NameError")


if __name__ == "__main__":
    unittest.main()
