#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that public headers do not include expensive headers.

    tools/check_header_budget.py --compiler g++ --torch .deps/python/torch

Runs the compiler with `-M` to list the files that each public header includes.
A light header may include LibTorch's small value types (such as `c10/core/Device.h`).
A header on the tensor list may also include everything that
`ATen/core/Tensor.h` and `torch/optim/optimizer.h` include. No header may
include a parser or a test library.
"""

import argparse
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tree

# Headers whose types hold tensors or derive from LibTorch's optimizer.
TENSOR_HEADERS = tree.ROOT / "tools/tensor_headers.txt"
TENSOR_BUDGET = ["ATen/core/Tensor.h", "torch/optim/optimizer.h"]
# Each of these headers takes about a second to compile.
LIGHT_BUDGET = ["c10/core/Device.h", "c10/core/ScalarType.h",
                "c10/util/Exception.h", "c10/util/intrusive_ptr.h"]
FORBIDDEN = ("nlohmann/", "yaml-cpp/", "CLI/", "gtest/", "gmock/", "openssl/",
             "mpi.h")


def included_files(compiler, folders, header):
    """Returns the files that a header includes, according to the compiler."""
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
        source.write(f'#include "{header}"\n')
        source.flush()
        command = [compiler, "-std=c++20", "-M", "-DUSE_DISTRIBUTED", source.name]
        command += [f"-I{folder}" for folder in folders]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{header} does not compile:\n{result.stderr}")
    paths = result.stdout.replace("\\\n", " ").split()[2:]
    return {str(Path(path)) for path in paths}


class Budget:
    """The LibTorch headers that each of the two kinds of header may include."""

    def __init__(self, compiler, include, torch):
        self.compiler = compiler
        api = torch / "include/torch/csrc/api/include"
        self.torch = (str(torch / "include"), str(api))
        self.folders = [include, *self.torch]
        self.light = self.read_all(LIGHT_BUDGET)
        self.tensor = self.light | self.read_all(TENSOR_BUDGET)

    def read_all(self, headers):
        return set().union(*(self.read(header) for header in headers))

    def read(self, header):
        return included_files(self.compiler, self.folders, header)

    def check(self, header, is_tensor_header):
        """Returns the findings about one public header."""
        found = self.read(header)
        allowed = self.tensor if is_tensor_header else self.light
        heavy = sorted(path for path in found - allowed
                       if path.startswith(self.torch))
        findings = []
        if heavy:
            kind = "tensor" if is_tensor_header else "light"
            findings.append(
                f"{header} is a {kind} header but includes {len(heavy)} "
                f"heavier LibTorch headers, such as {heavy[0]}")
        for path in sorted(found):
            if any(f"/{name}" in path for name in FORBIDDEN):
                findings.append(f"{header} includes {path}")
                break
        return findings


def check(compiler, root, torch, tensor_list):
    include = root / "include"
    headers = sorted(str(path.relative_to(include))
                     for path in include.rglob("*.h"))
    lines = (line.split("#")[0].strip() for line in tensor_list.read_text().splitlines())
    tensor_headers = {line for line in lines if line}
    findings = [f"{tensor_list.name} names {header}, which does not exist"
                for header in sorted(tensor_headers - set(headers))]
    budget = Budget(compiler, include, torch.resolve())
    with ThreadPoolExecutor(max_workers=2) as pool:
        for found in pool.map(
                lambda header: budget.check(header, header in tensor_headers), headers):
            findings += found
    return findings


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--torch", type=Path, default=tree.ROOT / ".deps/python/torch")
    parser.add_argument("--root", type=Path, default=tree.ROOT)
    parser.add_argument("--tensor-list", type=Path, default=TENSOR_HEADERS)
    options = parser.parse_args()
    return tree.report("headers", check(
        options.compiler, options.root, options.torch, options.tensor_list))


if __name__ == "__main__":
    sys.exit(main())
