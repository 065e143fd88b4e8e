# SPDX-License-Identifier: Apache-2.0
"""Functions that the checks share: list the files of the tree and print
findings."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def files(root):
    """Returns all files that git tracks or could track, relative to `root`."""
    git = subprocess.run(
        ["git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z"],
        capture_output=True, text=True, check=False)
    if git.returncode == 0:
        names = [Path(name) for name in git.stdout.split("\0") if name]
        return sorted(name for name in names if (root / name).is_file())
    return sorted(path.relative_to(root) for path in walk(root))


def walk(root):
    for folder, _, names in os.walk(root):
        for name in names:
            yield Path(folder) / name


def report(name, findings):
    """Prints the findings and returns the exit code of a check."""
    for finding in findings:
        print(f"{name}: {finding}", file=sys.stderr)
    if not findings:
        print(f"{name}: ok")
    return 1 if findings else 0
