# SPDX-License-Identifier: Apache-2.0
"""The notebooks in JupyterLab, in a headless Chromium: cells run, progress bars move, the plot appears.

ACCELERATE_BIN is the folder with the programs of a build, for the C++ notebook kernel.
ACCELERATE_PICTURES is the folder for the screenshot of the guide; if it is not set, no screenshot is written.
"""

import os
import re
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

import lab
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]
LIMIT = int(os.environ.get("ACCELERATE_CELL_LIMIT", "600"))  # seconds per cell
VIEWPORT = {"width": 1180, "height": 900}
BAR = re.compile(r"(\d+)/(\d+) \[")


def environment() -> dict:
    """Environment variables for tests on the CPU, with the modules of this Python."""
    path = os.pathsep.join(filter(None, sys.path))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def install_kernel(prefix: Path) -> bool:
    """Installs the C++ notebook kernel; returns whether there is one."""
    import subprocess

    command = Path(os.environ.get("ACCELERATE_BIN", "")) / "accelerate"
    if not command.is_file() or not shutil.which("clang-repl-19"):
        return False
    subprocess.run([command, "jupyter", "install", "--prefix", str(prefix)], check=True)
    return True


class JupyterLab(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        work = tempfile.TemporaryDirectory()
        cls.addClassCleanup(work.cleanup)
        folder = Path(work.name)
        # Copies the notebooks, so that tests do not change the source tree.
        shutil.copytree(ROOT / "notebooks", folder / "root" / "notebooks")
        (folder / "root" / "examples").symlink_to(ROOT / "examples")
        cls.has_cpp = install_kernel(folder / "prefix")
        cls.server = lab.Server(folder, folder / "root", environment(), folder / "prefix")
        cls.addClassCleanup(cls.server.close)
        playwright = cls.enterClassContext(sync_playwright())
        # Chromium's sandbox does not work in containers, and the pages are our own.
        cls.browser = playwright.chromium.launch(executable_path=lab.chromium(), args=["--no-sandbox", "--disable-gpu"])
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        context = self.browser.new_context(viewport=VIEWPORT, device_scale_factor=1.5)
        self.addCleanup(context.close)
        self.page = context.new_page()
        self.page.set_default_timeout(120_000)

    def open(self, name: str) -> lab.Notebook:
        return lab.Notebook(self.page, self.server, f"notebooks/{name}")

    def watch_bar(self, notebook, cell, also=lambda: None, done=None) -> list:
        """Returns the counts that the progress bar of a cell shows until the cell is done."""
        seen, stalled = [], []

        def observe():
            # A cell that fails cancels the cells below it, which then never get a number.
            stalled.append(notebook.is_idle() and not notebook.is_done(cell))
            self.assertFalse(all(stalled[-5:]) and len(stalled) >= 5, f"no cell is running:\n{notebook.outputs()}")
            found = BAR.findall(notebook.output(cell))
            if found and found[-1] not in seen:
                seen.append(found[-1])
            also()

        lab.watch(done or (lambda: notebook.is_done(cell)), observe, LIMIT)
        self.assertGreaterEqual(len(seen), 2, f"the bar did not move:\n{notebook.output(cell)}")
        return seen

    def assert_moves(self, seen: list) -> None:
        counts = [int(count) for count, _ in seen]
        self.assertEqual(counts, sorted(counts))
        self.assertLess(counts[0], counts[-1])

    def test_the_full_example_draws_its_plot(self):
        notebook = self.open("simple_nlp_example.ipynb")
        notebook.choose("Run", "Run All Cells")
        cell = notebook.cell("notebook_launcher(training_function")
        curve = cell.locator('svg[aria-label^="loss"] polyline').nth(1)
        lengths, pictures = set(), []

        def observe_curve():
            if curve.count():
                lengths.add(len(curve.get_attribute("points", timeout=5000).split()))
            if not pictures and self.share(notebook, cell) > 0.6:
                pictures.append(self.take_picture(notebook, cell))

        seen = self.watch_bar(notebook, cell, observe_curve)
        self.assert_moves(seen)
        self.assertGreaterEqual(len(lengths), 2, "the curve did not grow")
        picture = cell.locator('svg[aria-label^="loss"]')
        box = picture.bounding_box()
        self.assertGreater(box["width"] * box["height"], 100_000)
        text = picture.text_content()
        for part in ("loss", "learning rate", "samples/s", "100 %"):
            self.assertIn(part, text)
        self.assertRegex(notebook.output(cell), r"epoch 3: accuracy 0\.9|epoch 3: accuracy 1")
        self.assertEqual(len(pictures), 1)

    def share(self, notebook, cell) -> float:
        """The completed fraction that the bar shows."""
        found = BAR.findall(notebook.output(cell))
        return int(found[-1][0]) / int(found[-1][1]) if found else 0.0

    def take_picture(self, notebook, cell) -> bytes:
        """A screenshot of the page with the cell at the top, without the file browser."""
        self.page.keyboard.press("Control+b")
        self.page.set_viewport_size({"width": 960, "height": 660})
        cell.evaluate("cell => cell.scrollIntoView({block: 'start'})")
        folder = os.environ.get("ACCELERATE_PICTURES")
        path = os.path.join(folder, "jupyterlab.png") if folder else None
        picture = self.page.screenshot(path=path, animations="disabled")
        self.page.set_viewport_size(VIEWPORT)
        return picture

    def test_the_tutorial_in_python(self):
        notebook = self.open("tutorial_python.ipynb")
        notebook.choose("Run", "Run All Cells")
        cell = notebook.cell("print(f\"accuracy")
        self.assert_moves(self.watch_bar(notebook, cell))
        self.assertGreater(float(re.search(r"accuracy ([0-9.]+)", notebook.output(cell))[1]), 0.8)
        launch = notebook.cell('"../examples/data"), num_processes')
        self.assert_moves(self.watch_bar(notebook, launch))
        self.assertIn("trained on 2 processes", notebook.output(launch))

    def test_the_tutorial_in_cpp_and_the_buttons(self):
        if not self.has_cpp:
            self.skipTest("clang-repl 19 is not installed, or ACCELERATE_BIN is not set to a build")
        notebook = self.open("tutorial_cpp.ipynb")
        notebook.choose("Run", "Run All Cells")
        cell = notebook.cell("notebook_launcher(training_function")
        self.assert_moves(self.watch_bar(notebook, cell))
        self.assertRegex(notebook.output(cell), r"epoch 3: accuracy 0\.9|epoch 3: accuracy 1")

        # The interrupt button: the cell stops, and the interpreter keeps its state.
        notebook.run(cell)
        lab.watch(lambda: self.share(notebook, cell) > 0, lambda: None, LIMIT)
        notebook.press("Interrupt the kernel")
        lab.watch(lambda: notebook.is_done(cell), lambda: None, 30)
        self.assertIn("interrupted by SIGINT", notebook.output(cell))
        first = notebook.cell("const auto tokenizer")
        last = notebook.cell("notebook_launcher(training_function")
        self.assertIn("87", notebook.output(first))

        # The restart button: a new interpreter without state.
        notebook.press("Restart the kernel")
        self.page.locator(".jp-Dialog .jp-mod-accept").click()
        notebook.wait_for_kernel(LIMIT)
        notebook.run(last)
        lab.watch(lambda: notebook.is_done(last), lambda: None, LIMIT)
        self.assertIn("undeclared identifier 'training_function'", notebook.output(last))


if __name__ == "__main__":
    unittest.main()
