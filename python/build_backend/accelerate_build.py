# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel of `accelerate_cpp`: CMake builds the core, this module packs the wheel.

    ACCELERATE_BUILD_DIR=<folder>   pack this build; default: build in `build-python`
    TORCH_DIR=<folder>              the torch to build with; default: the torch in this environment
"""

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

import wheel_files
import wheel_libraries

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "accelerate_cpp"


def _fail(message: str, hint: str):
    sys.exit(f"error: {message}\nhint: {hint}")


def _version() -> str:
    return re.search(r'__version__ = "(.*)"', (PACKAGE / "_version.py").read_text()).group(1)


def _torch_dir() -> Path:
    if os.environ.get("TORCH_DIR"):
        return Path(os.environ["TORCH_DIR"])
    for key in ("purelib", "platlib"):
        folder = Path(sysconfig.get_paths()[key]) / "torch"
        if (folder / "lib" / "libtorch_cpu.so").exists():
            return folder
    _fail("torch is not installed in this environment", "run `pip install torch==2.11.0` first, or set TORCH_DIR")


def _build() -> Path:
    """The build folder for this Python; builds if ACCELERATE_BUILD_DIR is not set."""
    if os.environ.get("ACCELERATE_BUILD_DIR"):
        return Path(os.environ["ACCELERATE_BUILD_DIR"])
    # `make deps` installs CMake there if the distribution's CMake is too old.
    path = os.pathsep.join([str(ROOT / ".deps" / "bin"), os.environ.get("PATH", os.defpath)])
    for tool in ("cmake", "ninja"):
        if not shutil.which(tool, path=path):
            _fail(f"{tool} is not installed", f"run `make deps` in {ROOT} first; it installs everything a build needs")
    environment = dict(os.environ, PATH=path)
    folder = ROOT / "build-python"
    off = [f"-DACCELERATE_{part}=OFF" for part in ("TESTS", "EXAMPLES", "BENCHMARKS")]
    command = ["cmake", "--preset", "gcc", "-B", str(folder), f"-DTORCH_DIR={_torch_dir()}"]
    command += [f"-DACCELERATE_PYTHON={sys.executable}", *off]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    targets = ["--target", "accelerate_package", "accelerate_python"]
    command = ["cmake", "--build", str(folder), "-j", str(os.cpu_count()), *targets]
    subprocess.run(command, env=environment, check=True)
    return folder


def _tag(package: Path) -> str:
    """The wheel tag: this Python version, any Linux whose glibc is new enough."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"{python}-{python}-manylinux_2_{wheel_libraries.oldest_glibc(package)}_{os.uname().machine}"


def _torch_version(build: Path) -> str:
    toolchain = json.loads((build / "share" / "accelerate" / "toolchain.json").read_text())
    return ".".join(toolchain["torch_version"].split(".")[:2])


def _metadata(torch: str) -> str:
    lines = [
        "Metadata-Version: 2.1",
        "Name: accelerate-cpp",
        f"Version: {_version()}",
        "Summary: PyTorch training loops in any number of processes, with a C++ core",
        "License: Apache-2.0",
        f"Requires-Python: =={sys.version_info.major}.{sys.version_info.minor}.*",
        f"Requires-Dist: torch=={torch}.*",
        "Provides-Extra: notebook",
        "Requires-Dist: cloudpickle; extra == 'notebook'",
    ]
    return "\n".join(lines) + "\n"


ENTRY_POINTS = """[console_scripts]
accelerate-cpp = accelerate_cpp.launch:main
accelerate = accelerate_cpp.launch:main_unless_hugging_face
"""


def _dist_info(folder: Path, build: Path, tag: str) -> Path:
    info = folder / f"accelerate_cpp-{_version()}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(_metadata(_torch_version(build)))
    (info / "WHEEL").write_text(
        f"Wheel-Version: 1.0\nGenerator: accelerate_build\nRoot-Is-Purelib: false\nTag: {tag}\n"
    )
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    shutil.copy(ROOT / "LICENSE", info / "LICENSE")
    return info


def _pack(folder: Path, info: Path, path: Path) -> None:
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(p for p in folder.rglob("*") if p.is_file()):
            name = file.relative_to(folder).as_posix()
            data = file.read_bytes()
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100755 if os.access(file, os.X_OK) else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}")
        record.append(f"{info.name}/RECORD,,")
        archive.writestr(f"{info.name}/RECORD", "\n".join(record) + "\n")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    build = _build()
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        wheel_files.stage(build, PACKAGE, folder / "accelerate_cpp")
        tag = _tag(folder / "accelerate_cpp")
        name = f"accelerate_cpp-{_version()}-{tag}.whl"
        for old in Path(wheel_directory).glob(f"accelerate_cpp-*-{tag.split('-')[0]}-*.whl"):
            old.unlink()
        _pack(folder, _dist_info(folder, build, tag), Path(wheel_directory) / name)
    return name


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    print(os.path.join(sys.argv[1], build_wheel(sys.argv[1])))
