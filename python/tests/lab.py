# SPDX-License-Identifier: Apache-2.0
"""A JupyterLab server on loopback and its page in a headless Chromium, for tests.

Needs jupyterlab, playwright and a Chromium: `tools/python_env.sh browser` provides them.
"""

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

START_LIMIT = 120  # seconds until the server answers
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

# User settings: fetches nothing, renders every cell, and makes screenshots reproducible.
SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "notebook-extension/tracker": {"windowingMode": "none"},
    "docmanager-extension/plugin": {"autosave": False},
}


class Server:
    """A JupyterLab server for a folder; `kernels` is a prefix with additional kernels."""

    def __init__(self, work: Path, root: Path, variables: dict, kernels: Path):
        self.token = secrets.token_hex(24)
        self._runtime = work / "runtime"
        self._write_settings(work / "settings")
        variables = {
            **variables,
            "JUPYTER_TOKEN": self.token,  # not on the command line, which every user can read
            "JUPYTER_RUNTIME_DIR": str(self._runtime),
            "JUPYTER_CONFIG_DIR": str(work / "config"),
            "JUPYTER_DATA_DIR": str(work / "data"),
            "JUPYTER_PATH": str(kernels / "share" / "jupyter"),
            "JUPYTERLAB_SETTINGS_DIR": str(work / "settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(work / "workspaces"),
            "IPYTHONDIR": str(work / "ipython"),
        }
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0"]
        self.log = work / "server.log"
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [*command, f"--ServerApp.root_dir={root}", "--LabApp.collaborative=False"],
                env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )
        try:
            self.url = self._await_url()
        except BaseException:
            self.close()
            raise

    def _write_settings(self, folder: Path) -> None:
        for name, values in SETTINGS.items():
            path = folder / "@jupyterlab" / f"{name}.jupyterlab-settings"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(values))

    def _await_url(self) -> str:
        """Waits for the file in which the server publishes its address."""
        path = self._runtime / f"jpserver-{self._process.pid}.json"
        limit = time.monotonic() + START_LIMIT
        while time.monotonic() < limit and self._process.poll() is None:
            if path.exists():
                try:
                    return json.loads(path.read_text())["url"]
                except (ValueError, KeyError):
                    pass  # not completely written yet
            time.sleep(0.05)
        raise RuntimeError(f"JupyterLab did not start:\n{self.log.read_text()[-4000:]}")

    def close(self) -> None:
        """Stops the server and its kernels."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()


def chromium() -> str:
    found = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if found is None:
        raise RuntimeError("Chromium is not installed: run `tools/python_env.sh browser`")
    return found


class Notebook:
    """The page of a notebook, operated as a user would operate it."""

    def __init__(self, page, server: Server, path: str):
        self.page = page
        page.goto(f"{server.url}lab/tree/{path}?token={server.token}")
        page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook").wait_for()
        self._panel = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
        self.wait_for_kernel()

    def wait_for_kernel(self, limit: float = 120) -> None:
        """Waits for `Idle` in the status bar; other indicators show `Idle` before there is a kernel."""
        self.page.locator("#jp-main-statusbar").get_by_text(re.compile(r"\| Idle$")).wait_for(timeout=1000 * limit)

    def cell(self, text: str):
        """The code cell whose source contains this text."""
        return self._panel.locator(".jp-CodeCell", has=self.page.locator(".jp-InputArea", has_text=text)).last

    def choose(self, menu: str, item: str) -> None:
        """Clicks an item of the main menu."""
        self.page.get_by_role("menuitem", name=menu, exact=True).click()
        self.page.locator(".lm-Menu").get_by_text(item, exact=True).click()

    def press(self, title: str) -> None:
        """Clicks a button in the toolbar of the notebook."""
        self._panel.locator(f'.jp-NotebookPanel-toolbar [title^="{title}"], .jp-Toolbar [title^="{title}"]').first.click()

    def run(self, cell) -> None:
        """Runs a cell with Shift+Enter."""
        cell.locator(".jp-InputArea-editor").click()
        self.page.keyboard.press("Shift+Enter")

    def is_done(self, cell) -> bool:
        """Whether the prompt of the cell is a number, like `[3]:`, not a star or blank."""
        return re.fullmatch(r"\[\d+\]:", cell.locator(".jp-InputPrompt").inner_text().strip()) is not None

    def is_idle(self) -> bool:
        """Whether no cell is running or queued: none has a star."""
        return not any("*" in prompt for prompt in self._panel.locator(".jp-InputPrompt").all_inner_texts())

    def outputs(self) -> str:
        return "\n".join(self._panel.locator(".jp-OutputArea").all_inner_texts())

    def output(self, cell) -> str:
        return cell.locator(".jp-OutputArea").first.inner_text() if cell.locator(".jp-OutputArea").count() else ""


def watch(condition, observe, limit: float, interval: float = 0.4):
    """Calls `observe` repeatedly until the condition holds."""
    end = time.monotonic() + limit
    while True:
        observe()
        if condition():
            return
        if time.monotonic() > end:
            raise TimeoutError(f"the condition was not met within {limit} seconds")
        time.sleep(interval)
