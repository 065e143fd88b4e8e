#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a layer includes only the interfaces of lower layers, and that
expensive headers are included only where they are allowed.

    tools/check_layers.py [root of the tree]

A private header belongs to its folder under src/. A public header belongs to
the layer of the source file whose first include is this header (`error.h`
belongs to base, because of error.cpp). A header without such a source file
belongs to the layers of all headers that it includes.
"""

import re
import sys
from pathlib import Path

import tree

CORE = {"base", "config", "checkpoint_directory"}
LOW = CORE | {"device", "comm", "state", "random", "reporting", "profiling"}

# Layer -> the layers it may include, besides itself.
LAYERS = {
    "base": set(),
    "config": {"base"},
    "checkpoint_directory": {"base"},
    "launch": CORE,
    "tracking": CORE,
    "jupyter": CORE | {"launch"},
    "device": CORE,
    "comm": CORE | {"device"},
    "state": CORE | {"device", "comm"},
    "reporting": CORE | {"device", "comm", "state"},
    "random": CORE | {"device", "comm", "state"},
    "launchers": LOW,
    "profiling": CORE | {"device", "comm", "state"},
    "tensor_io": {"base"},
    "precision": LOW,
    "optim": LOW,
    "data": LOW,
    "parallel": LOW | {"precision"},
    "metrics": LOW,
    "training": LOW | {"tracking", "precision", "optim", "data", "parallel"},
    "checkpoint": LOW | {"tracking", "tensor_io", "precision", "optim", "data",
                         "parallel", "training"},
    "accelerator": LOW | {"tracking", "tensor_io", "precision", "optim", "data",
                          "parallel", "training", "checkpoint"},
    "hub": {"base", "config"},
    "datasets": {"base", "config", "hub"},
    "tokenizers": {"base", "config", "hub"},
    "transformers": CORE | {"device", "tensor_io", "precision", "optim",
                            "data", "hub", "datasets", "tokenizers"},
    "cuda": LOW | {"tensor_io", "precision", "optim", "data", "parallel"},
    "xla": CORE | {"device"},
    "cli": CORE | {"launch", "tracking"},
}
# Layer -> its private headers that other layers may include. Every layer may
# include all headers of `base`.
INTERFACES = {
    "config": {"config_file.h", "environment.h", "setting.h", "settings.h",
               "slurm_step.h", "user_folders.h", "variables.h"},
    "checkpoint_directory": {"checkpoints.h", "checksum.h", "checksummed_file.h",
                             "documents.h", "hook_files.h", "leftovers.h",
                             "local_disk.h", "manifest.h", "plain_file.h",
                             "staged_directory.h", "tensor_table.h"},
    "launch": {"compile.h", "hardware.h", "machine_rendezvous.h", "model_size.h",
               "mpirun.h", "plan.h", "program.h", "program_output.h", "session.h",
               "slurm.h", "toolchain.h"},
    "tracking": {"plot.h", "png.h", "registry.h", "tracker_set.h"},
    "device": {"cuda_facts.h", "device_backend.h", "device_library.h",
               "differentiable_step.h", "error_line.h", "fused_blocks.h",
               "interception.h", "lazy_tensor.h", "out_of_memory.h",
               "lazy_device.h", "step_recorder.h", "token_counts.h", "xla_backend.h",
               "xla_library.h"},
    "comm": {"bounded_call.h", "group_call.h", "launcher_link.h", "launcher_store.h",
             "plugin.h", "reporting_store.h", "run_collectively.h",
             "wait_limits.h"},
    "state": {"gradient_state.h", "mesh.h", "rendezvous_store.h"},
    "hub": set(),
    "tensor_io": {"safetensors_dtype.h", "safetensors_view.h", "safetensors_writer.h"},
    "precision": {"device_precision.h"},
    "optim": {"scheduler_context.h", "skip_flag.h", "staged_state.h",
              "state_tensors.h"},
    "parallel": {"gradient_path.h", "model_sync.h", "strategy.h",
                 "sync_batch_norm.h"},
    "training": {"mixed_precision.h", "module_tensors.h", "preemption.h",
                 "prepared_objects.h", "random_states.h", "training_step.h"},
    "checkpoint": {"checkpoint_session.h", "save_model.h"},
}
WITHOUT_LIBTORCH = {
    "base", "config", "checkpoint_directory", "launch", "tracking", "jupyter",
    "hub", "datasets", "tokenizers", "cli"}
# Parts of layers that do without it: they compile in seconds.
FOLDERS_WITHOUT_LIBTORCH = ("src/xla/pjrt/", "src/xla/graph/")

# (header, folders that may include it)
RESTRICTED = [
    (re.compile(r"torch/csrc/distributed/c10d/(ProcessGroup\w*|Backend|Work)\.hpp"),
     ("src/comm/", "src/cuda/", "tests/", "benchmarks/", "cmake/pch/")),
    (re.compile(r"torch/nn(/|\.h)"),
     ("src/transformers/", "src/training/", "src/accelerator/", "tests/",
      "benchmarks/", "examples/", "cmake/pch/", "python/")),
    (re.compile(r"torch/(torch|all)\.h"), ("examples/",)),
]
# Each of these headers takes seconds to compile, so only one source file may
# include and wrap it.
ONE_SOURCE = re.compile(r"nlohmann/.*|CLI/.*|CLI11\.hpp|yaml-cpp/.*")
LIBTORCH = re.compile(r"(ATen|c10|torch|caffe2)/")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
ENVIRONMENT = re.compile(
    r"\b(getenv|secure_getenv|setenv|putenv|unsetenv|set_env)\s*\(|\benviron\b")
# Launchers set the environment of their child processes; Open MPI, XLA's
# plugins and LibTorch's NCCL group read options only from environment variables.
MAY_TOUCH_ENVIRONMENT = (
    "src/config/environment.", "src/launch/", "src/jupyter/",
    "src/launchers/forked_ranks.", "src/comm/backends/mpi/runtime.",
    "src/cuda/nccl_group.", "src/xla/pjrt/plugin_differences.")
# Code outside these files must use the device layer. placement.cpp parses the
# name `cuda` in a variable, and profiler.cpp sets LibTorch's activities.
CUDA = re.compile(r"\bis_cuda\(\)|\bhasCUDA\(|\bkCUDA\b")
MAY_ASK_FOR_CUDA = (
    "src/cuda/", "src/device/", "src/state/placement.", "src/profiling/profiler.")


def includes(path):
    """Yields (line number, header) for each include of a file."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match[2]


def layer_of(path):
    """Returns the layer of a file, or None for a file outside the layers."""
    parts = path.parts
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    return parts[0] if parts[0] == "cli" else None


class Headers:
    """Maps each public header to the layers to which it belongs."""

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
        """Returns the layers to which `header` belongs."""
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
    """Yields the findings about the includes of one file."""
    layer = layer_of(name)
    if name.parts[0] == "src" and layer and layer not in LAYERS:
        yield f"{name}: src/{layer} is not a layer; add it to tools/check_layers.py"
        return
    owner = headers.owner.get("/".join(name.parts[1:]))
    for line, header in includes(root / name):
        where = f"{name}:{line}"
        allowed = LAYERS.get(layer or owner)
        if allowed is not None:
            for other in sorted(headers.layers(header) - allowed - {layer, owner}):
                yield f"{where}: {layer or owner} may not include {other} ({header})"
        if LIBTORCH.match(header) and (
                layer in WITHOUT_LIBTORCH or
                str(name).startswith(FOLDERS_WITHOUT_LIBTORCH)):
            yield f"{where}: {layer} may not include LibTorch ({header})"
        if name.parts[0] == "include" and header.split("/")[0] in LAYERS \
                and header not in headers.includes:
            yield f"{where}: a public header may not include a private one ({header})"
        for pattern, folders in RESTRICTED:
            if pattern.match(header) and not str(name).startswith(folders):
                yield f"{where}: only {', '.join(folders)} may include {header}"


def check_interfaces(root, names):
    """Yields each include of another layer's private header that is not in its
    interface, and each header in an interface that no other layer includes."""
    existing = {"/".join(name.parts[1:]) for name in names if name.parts[0] == "src"}
    included = set()
    for name in names:
        layer = layer_of(name)
        if layer is None:
            continue
        for line, header in includes(root / name):
            owner = header.split("/")[0]
            if header not in existing or owner in (layer, "base"):
                continue
            included.add(header)
            if header.split("/", 1)[1] not in INTERFACES.get(owner, ()):
                yield (f"{name}:{line}: {header} is private to {owner}; use its "
                       "interface (INTERFACES in tools/check_layers.py)")
    for owner, headers in INTERFACES.items():
        for header in sorted(headers):
            full = f"{owner}/{header}"
            if full in existing and full not in included:
                yield (f"src/{full}: no other layer includes it; remove it from "
                       "INTERFACES in tools/check_layers.py")


def check_environment(root, name):
    """Yields each access to environment variables outside config/environment."""
    if name.parts[0] not in ("src", "cli", "include") or \
            str(name).startswith(MAY_TOUCH_ENVIRONMENT):
        return
    for number, line in enumerate((root / name).read_text().splitlines(), 1):
        match = ENVIRONMENT.search(line.split("//")[0])
        if match:
            yield f"{name}:{number}: only config/environment may use `{match[0]}`"


def check_cuda(root, name):
    """Yields each CUDA check outside src/cuda and the device layer."""
    if name.parts[0] not in ("src", "cli", "include") or \
            str(name).startswith(MAY_ASK_FOR_CUDA):
        return
    for number, line in enumerate((root / name).read_text().splitlines(), 1):
        match = CUDA.search(line.split("//")[0])
        if match:
            yield f"{name}:{number}: only src/device may use `{match[0]}`"


def check_parsers(root, names):
    """Yields each header that includes an expensive parser, and each parser
    that several source files include."""
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
            yield (f"{library} is included by {', '.join(sorted(found))}: "
                   "include it in one source only")


def check(root):
    names = [name for name in tree.files(root)
             if name.suffix in (".h", ".hpp", ".cpp", ".cu", ".cuh")]
    headers = Headers(root, names)
    findings = []
    for name in names:
        findings += check_file(root, name, headers)
        findings += check_environment(root, name)
        findings += check_cuda(root, name)
    return [*findings, *check_interfaces(root, names), *check_parsers(root, names)]


if __name__ == "__main__":
    sys.exit(tree.report(
        "layers", check(Path(sys.argv[1]) if len(sys.argv) > 1 else tree.ROOT)))
