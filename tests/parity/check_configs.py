# SPDX-License-Identifier: Apache-2.0
"""Checks that Hugging Face Accelerate reads the files of `accelerate config`.

    check_configs.py <path of the C++ accelerate>

Python must load every file without a warning and read the same values.
"""

import os
import subprocess
import sys
import tempfile

import accelerate
from accelerate.commands.config.config_args import load_config_from_file

# Flags, and the values that the configuration must have in Python.
CASES = [
    (["--cpu"], {"num_processes": 1, "use_cpu": True, "distributed_type": "NO"}),
    (
        ["--cpu", "--num_processes", "4", "--mixed_precision", "bf16", "--debug"],
        {
            "num_processes": 4,
            "num_machines": 1,
            "machine_rank": 0,
            "mixed_precision": "bf16",
            "debug": True,
            "distributed_type": "MULTI_CPU",
            "rdzv_backend": "static",
            "same_network": True,
        },
    ),
    (
        ["--cpu", "--num_machines", "2", "--machine_rank", "1", "--num_processes", "4"]
        + ["--main_process_ip", "10.0.0.1", "--main_process_port", "12345"]
        + ["--rdzv_backend", "c10d", "--same_network=false", "--enable_cpu_affinity"],
        {
            "num_machines": 2,
            "machine_rank": 1,
            "main_process_ip": "10.0.0.1",
            "main_process_port": 12345,
            "rdzv_backend": "c10d",
            "same_network": False,
            "enable_cpu_affinity": True,
        },
    ),
    (
        ["--cpu", "--num_processes", "2", "--mpirun_hostfile", "~/it's: #1"],
        {"mpirun_config": {"mpirun_hostfile": "~/it's: #1"}},
    ),
    # Settings that exist only in the C++ library must not reach Python.
    (
        ["--cpu", "--max_restarts", "3", "--log_dir", "logs", "--stop_timeout", "4"],
        {"num_processes": 1},
    ),
]


def text_of(value):
    return getattr(value, "value", value)


def check(binary, folder, name, flags, expected):
    path = os.path.join(folder, name)
    subprocess.run(
        [binary, "config", "default", "--config_file", path, *flags],
        check=True,
        capture_output=True,
        timeout=60,
        env={"HOME": folder, "PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": ""},
    )
    config = load_config_from_file(path)
    for key, value in expected.items():
        found = text_of(getattr(config, key))
        if found != value:
            sys.exit(f"{name} with {flags}: {key} is {found!r} in Python, expected {value!r}")


def main():
    binary = os.path.abspath(sys.argv[1])
    for index, (flags, expected) in enumerate(CASES):
        for suffix in ("yaml", "json"):
            with tempfile.TemporaryDirectory() as folder:
                check(binary, folder, f"case{index}.{suffix}", flags, expected)
    print(
        f"{2 * len(CASES)} C++ configurations give the same values in "
        f"Hugging Face Accelerate {accelerate.__version__}"
    )


if __name__ == "__main__":
    main()
