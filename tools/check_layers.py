#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that includes point downward, and who may use heavy headers.

    tools/check_layers.py [folder of the tree]

A private header belongs to its folder under src/. A public header belongs to
the layer whose source includes it first (`error.h` to base, for error.cpp);
one that no source implements counts as all that it includes.
"""

import re
import sys
from pathlib import Path

import tree

HOST = {"base", "config", "folders"}
LOW = HOST | {"compat", "device", "comm", "state"}

# Layer -> the layers it may include, besides itself.
LAYERS = {
    "base": set(),
    "config": {"base"},
    "folders": {"base"},
    "launch": HOST,
    "tracking": HOST,
    "jupyter": HOST | {"launch"},
    "compat": set(),
    "device": HOST | {"compat"},
    "comm": HOST | {"compat", "device"},
    "state": HOST | {"compat", "device", "comm"},
    "tensor_io": {"base", "compat"},
    "precision": LOW,
    "optim": LOW,
    "data": LOW,
    "parallel": LOW | {"precision"},
    "checkpoint": LOW | {"tensor_io"},
    "accelerator": LOW | {"tracking", "tensor_io", "precision", "optim", "data",
                          "parallel", "checkpoint"},
    "transformers": HOST | {"compat", "device", "tensor_io", "precision",
                            "optim", "data"},
    "cuda": LOW | {"tensor_io", "precision", "optim", "data", "parallel"},
    "cli": HOST | {"launch", "tracking"},
}
WITHOUT_LIBTORCH = {
    "base", "config", "folders", "launch", "tracking", "jupyter", "cli"}
# Folders without LibTorch inside a layer that has it.
HOST_FOLDERS = (
    "src/transformers/datasets/", "src/transformers/hub/",
    "src/transformers/tokenizers/")

# (header, who may include it)
RESTRICTED = [
    (re.compile(r"torch/csrc/distributed/c10d/ProcessGroup\w*\.hpp"),
     ("src/comm/", "src/cuda/", "tests/", "benchmarks/", "cmake/pch/")),
    (re.compile(r"torch/nn(/|\.h)"),
     ("src/transformers/", "src/parallel/", "src/accelerator/", "tests/",
      "benchmarks/", "examples/", "cmake/pch/", "python/")),
    (re.compile(r"torch/(torch|all)\.h"), ("examples/",)),
]
# Each costs seconds: one source of ours, behind a type of ours.
ONE_SOURCE = re.compile(r"nlohmann/.*|CLI/.*|CLI11\.hpp|yaml-cpp/.*")
LIBTORCH = re.compile(r"(ATen|c10|torch|caffe2)/")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
ENVIRONMENT = re.compile(
    r"\b(getenv|secure_getenv|setenv|putenv|unsetenv)\s*\(|\benviron\b")
# Launchers write the environment of their children; Open MPI reads its options
# there alone.
MAY_TOUCH_ENVIRONMENT = (
    "src/config/environment.", "src/launch/", "src/jupyter/",
    "src/state/forked_ranks.", "src/comm/backends/mpi/runtime.")
# Everybody else asks the device layer. The profiler's activities and the word
# `cuda` in a variable are LibTorch's; fused.cpp asks for autocast by device.
CUDA = re.compile(r"\bis_cuda\(\)|\bhasCUDA\(|\bkCUDA\b")
MAY_ASK_FOR_CUDA = (
    "src/cuda/", "src/device/", "src/state/placement.", "src/state/profiler.",
    "src/transformers/fused.")


def includes(path):
    """Yields (line number, header) for each include of a file."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match[2]


def layer_of(path):
    """The layer a file lies in, or None outside the layers."""
    parts = path.parts
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    return parts[0] if parts[0] == "cli" else None


class Headers:
    """Which layers a public header stands for."""

    def __init__(self, root, names):
        self.includes = {}
        self.owner = {}
        for name in names:
            headers = [header for _, header in includes(root / name)]
            if name.parts[0] == "include":
                self.includes["/".join(name.parts[1:])] = headers
            elif name.suffix == ".cpp" and headers and layer_of(name):
                self.owner.setdefault(headers[0], layer_of(name))

    def layers(self, header, seen=()):
        """The layers that including `header` amounts to."""
        if header not in self.includes:
            layer = header.split("/")[0]
            return {layer} if layer in LAYERS and "/" in header else set()
        if header in self.owner:
            return {self.owner[header]}
        result = set()
        for inner in self.includes[header]:
            if inner not in seen:
                result |= self.layers(inner, (*seen, header))
        return result


def check_file(root, name, headers):
    """Yields what is wrong with the includes of one file."""
    layer = layer_of(name)
    if name.parts[0] == "src" and layer and layer not in LAYERS:
        yield f"{name}: src/{layer} is no layer; add it to tools/check_layers.py"
        return
    owner = headers.owner.get("/".join(name.parts[1:]))
    for line, header in includes(root / name):
        where = f"{name}:{line}"
        allowed = LAYERS.get(layer or owner)
        if allowed is not None:
            for other in sorted(headers.layers(header) - allowed - {layer, owner}):
                yield f"{where}: {layer or owner} may not include {other} ({header})"
        if LIBTORCH.match(header) and (
                layer in WITHOUT_LIBTORCH or str(name).startswith(HOST_FOLDERS)):
            yield f"{where}: {layer} may not include LibTorch ({header})"
        if name.parts[0] == "include" and header.split("/")[0] in LAYERS \
                and header not in headers.includes:
            yield f"{where}: a public header may not include a private one ({header})"
        for pattern, folders in RESTRICTED:
            if pattern.match(header) and not str(name).startswith(folders):
                yield f"{where}: only {', '.join(folders)} may include {header}"


def check_environment(root, name):
    """Yields each place outside config/environment that touches it."""
    if name.parts[0] not in ("src", "cli", "include") or \
            str(name).startswith(MAY_TOUCH_ENVIRONMENT):
        return
    for number, line in enumerate((root / name).read_text().splitlines(), 1):
        match = ENVIRONMENT.search(line.split("//")[0])
        if match:
            yield f"{name}:{number}: only config/environment may use `{match[0]}`"


def check_cuda(root, name):
    """Yields each place outside cuda and the device layer that asks for it."""
    if name.parts[0] not in ("src", "cli", "include") or \
            str(name).startswith(MAY_ASK_FOR_CUDA):
        return
    for number, line in enumerate((root / name).read_text().splitlines(), 1):
        match = CUDA.search(line.split("//")[0])
        if match:
            yield f"{name}:{number}: only src/device may ask for `{match[0]}`"


def check_parsers(root, names):
    """Yields every header, and every second source, with a costly parser."""
    users = {}
    for name in names:
        if name.parts[0] not in ("src", "cli", "include"):
            continue
        for line, header in includes(root / name):
            if not ONE_SOURCE.fullmatch(header):
                continue
            library = header.split("/")[0]
            users.setdefault(library, set()).add(str(name))
            if name.suffix == ".h":
                yield f"{name}:{line}: no header may include {header}"
    for library, found in users.items():
        if len(found) > 1:
            yield f"{library} is included by {', '.join(sorted(found))}: keep it in one"


def check(root):
    names = [name for name in tree.files(root)
             if name.suffix in (".h", ".hpp", ".cpp", ".cu", ".cuh")]
    headers = Headers(root, names)
    findings = []
    for name in names:
        findings += check_file(root, name, headers)
        findings += check_environment(root, name)
        findings += check_cuda(root, name)
    return findings + list(check_parsers(root, names))


if __name__ == "__main__":
    sys.exit(tree.report(
        "layers", check(Path(sys.argv[1]) if len(sys.argv) > 1 else tree.ROOT)))
