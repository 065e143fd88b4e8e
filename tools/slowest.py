#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the slowest steps of the builds in a folder.

    tools/slowest.py build [count]

Reads ninja's log and uses the last build of each output.
"""

import sys
from pathlib import Path


def read_log(path):
    """Returns {output: seconds}, with one output per command."""
    by_output = {}
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            continue
        start, end, _mtime, output, command = line.split("\t")
        by_output[output] = (int(end) - int(start), command)
    by_command = {}
    for output, (milliseconds, command) in by_output.items():
        by_command.setdefault(command, (milliseconds / 1000, output))
    return {output: seconds for seconds, output in by_command.values()}


def readable(output):
    """Converts `src/CMakeFiles/accelerate_base.dir/base/error.cpp.o` to the
    source file and its target."""
    head, found, tail = output.partition("CMakeFiles/")
    if not found:
        return output
    target, _, source = tail.partition(".dir/")
    return f"{head}{source.removesuffix('.o')}  ({target})"


def main(arguments):
    folder = Path(arguments[0] if arguments else "build")
    count = int(arguments[1]) if len(arguments) > 1 else 10
    log = folder / ".ninja_log"
    if not log.exists():
        sys.exit(f"error: {log} does not exist\nhint: run `make build` first")
    times = read_log(log)
    slowest = sorted(times.items(), key=lambda item: -item[1])[:count]
    for output, seconds in slowest:
        print(f"{seconds:7.1f} s  {readable(output)}")
    print(f"{sum(times.values()):7.1f} s  total of all {len(times)} steps")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
