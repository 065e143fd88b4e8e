# SPDX-License-Identifier: Apache-2.0
"""`python -m accelerate_cpp.launch train.py`: runs `accelerate launch` with this Python.

The `accelerate` command is a C++ program in the package's `bin/` folder.
"""

import os
import sys
from typing import NoReturn, Optional


def command_path() -> str:
    """The path of the command."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "accelerate")


def environment(variables: Optional[dict] = None) -> dict:
    """Environment variables that make the command run scripts with this Python and find its LibTorch."""
    result = dict(os.environ if variables is None else variables)
    result["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), result.get("PATH", os.defpath)])
    return result


def run(arguments: list) -> NoReturn:
    """Replaces this process with the command."""
    path = command_path()
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(path, [path, *arguments], environment())


def main() -> NoReturn:
    """The console script: `accelerate-cpp launch …`, `accelerate-cpp config`, …"""
    run(sys.argv[1:])


def main_unless_hugging_face() -> NoReturn:
    """The console script `accelerate`: runs Hugging Face Accelerate's command if it is installed, else this project's.

    Both packages install a script with this name, and the package that is installed last overwrites it. To keep the
    other command available, this script runs it.
    """
    from importlib import metadata

    for script in metadata.entry_points(group="console_scripts", name="accelerate"):
        if script.dist is not None and script.dist.name.replace("_", "-") == "accelerate":
            sys.exit(script.load()())
    main()


if __name__ == "__main__":
    run(["launch", *sys.argv[1:]])
