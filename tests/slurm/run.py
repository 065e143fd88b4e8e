#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the launcher and programs under a real Slurm on this machine.

    tests/slurm/run.py <build folder> [--only REGEX]

Needs root and Debian's slurm-wlm; `make test-slurm` installs it. Everything runs in network, mount
and PID namespaces that end with this script, so nothing listens outside these namespaces. Prints
one line and the seconds per case.
"""

import argparse
import re
import shutil
import sys
import time
from pathlib import Path

import cases  # noqa: F401 (registers the cases)
from cluster import Cluster, enter_namespaces
from harness import CASES, Failed, Shell


def run_case(function, cluster, build):
    """Returns a description of the failure, or None."""
    shell = Shell(cluster, build, function.__name__, function.seconds)
    try:
        function(shell)
        return None
    except (Failed, TimeoutError) as error:
        return str(error)
    finally:
        shell.stop()
        cluster.wait_until_idle()


def run_cases(selected, build):
    failures = []
    for nodes, own_networks in ((2, True), (2, False), (3, True)):
        group = [f for f in selected if f.nodes == nodes and (own_networks or is_plain(f))]
        if not group:
            continue
        print(f"== {nodes} nodes, {'each with its' if own_networks else 'all in one'} "
              "network namespace", flush=True)
        with Cluster(nodes, own_networks) as cluster:
            for function in group:
                start = time.monotonic()
                problem = run_case(function, cluster, build)
                seconds = time.monotonic() - start
                print(f"{'FAIL' if problem else 'ok':4} {seconds:6.1f} s  {function.__name__}",
                      flush=True)
                if problem:
                    failures.append(function.__name__)
                    print("    " + problem.replace("\n", "\n    "), flush=True)
    return failures


def is_plain(function):
    """Cases that also run with both nodes on one network, where ports clash."""
    return function.__name__ in {
        "launchers_on_two_nodes", "programs_on_two_nodes", "two_steps_at_once",
        "two_steps_at_once_with_the_same_arguments", "two_direct_steps_at_once", "jobs_at_once",
        "arbitrary_distribution"}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--only", default="", help="cases whose names match")
    options = parser.parse_args()
    for program in ("slurmctld", "slurmd", "munged", "ip", "unshare"):
        if shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
            sys.exit(f"error: {program} is not installed\nhint: run `make test-slurm`")
    enter_namespaces()
    start = time.monotonic()
    selected = [f for f in CASES if re.search(options.only, f.__name__)]
    failures = run_cases(selected, options.build.resolve())
    print(f"\n{len(selected)} cases in {time.monotonic() - start:.0f} s, "
          f"{len(failures)} failures {' '.join(failures)}")
    sys.exit(1 if failures or not selected else 0)


if __name__ == "__main__":
    main()
