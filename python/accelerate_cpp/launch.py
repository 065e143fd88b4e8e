# SPDX-License-Identifier: Apache-2.0
"""`python -m accelerate_cpp.launch train.py`: the command `accelerate launch`, with this Python.

The command itself is a program of C++; it lies in the package, in `bin/`.
"""

import os
import sys
from typing import NoReturn, Optional


def command_path() -> str:
    """Where the command is."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "accelerate")


def environment(variables: Optional[dict] = None) -> dict:
    """Variables with which the command runs scripts by this Python, and finds the LibTorch it has."""
    result = dict(os.environ if variables is None else variables)
    result["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), result.get("PATH", os.defpath)])
    return result


def run(arguments: list) -> NoReturn:
    """Becomes the command."""
    path = command_path()
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(path, [path, *arguments], environment())


def main() -> NoReturn:
    """The console script: `accelerate-cpp launch …`, `accelerate-cpp config`, …"""
    run(sys.argv[1:])


def main_unless_peer() -> NoReturn:
    """The console script `accelerate`: the peer's command where the peer is installed, else ours.

    Whichever package was installed last owns the file, so ours hands over.
    """
    from importlib import metadata

    for script in metadata.entry_points(group="console_scripts", name="accelerate"):
        if script.dist is not None and script.dist.name.replace("_", "-") == "accelerate":
            sys.exit(script.load()())
    main()


if __name__ == "__main__":
    run(["launch", *sys.argv[1:]])
