# SPDX-License-Identifier: Apache-2.0
"""Helper commands for wheel.sh.

    wheel_support.py needs <distribution>...   the files and folders of the distributions and their dependencies
    wheel_support.py metadata <wheel>          the metadata of the wheel
    wheel_support.py policy <wheel>            the platform tag that auditwheel would give it
    wheel_support.py hugging_face <folder>     makes a fake wheel of Hugging Face Accelerate
"""

import sys
import zipfile
from importlib import metadata
from pathlib import Path

# Libraries of torch, and Open MPI, which the MPI plugin takes from the machine it runs on.
ELSEWHERE = ("libtorch*", "libc10*", "libcu*", "libnv*", "libnccl*", "libmpi*", "libopen-*")


def needs(names: list) -> set:
    from pip._vendor.packaging.requirements import Requirement

    found, seen, pending = {}, set(), [Requirement(name) for name in names]
    while pending:
        current = pending.pop()
        name = current.name.lower().replace("_", "-")
        found[name] = found.get(name) or metadata.distribution(name)
        for extra in {"", *current.extras} - {extra for known, extra in seen if known == name}:
            seen.add((name, extra))
            for requirement in map(Requirement, found[name].requires or ()):
                if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                    pending.append(requirement)
    tops = {file.parts[0] for distribution in found.values() for file in distribution.files or ()}
    return {top for top in tops if top not in ("..", "__pycache__")}


def read_metadata(wheel: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return archive.read(name).decode()


def policy(wheel: str) -> str:
    from auditwheel.wheel_abi import analyze_wheel_abi

    info = analyze_wheel_abi(
        None, None, Path(wheel), frozenset(ELSEWHERE), disable_isa_ext_check=True, allow_graft=False
    )
    for name, reference in info.external_refs.items():
        if name == info.overall_policy.name and reference.libs:
            print(f"needs {sorted(reference.libs)}", file=sys.stderr)
    return info.overall_policy.name


def make_hugging_face_wheel(folder: str) -> str:
    path = Path(folder) / "accelerate-9.9-py3-none-any.whl"
    files = {
        "accelerate/__init__.py": 'def main():\n    print("Hugging Face Accelerate")\n',
        "accelerate-9.9.dist-info/METADATA": "Metadata-Version: 2.1\nName: accelerate\nVersion: 9.9\n",
        "accelerate-9.9.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "accelerate-9.9.dist-info/entry_points.txt": "[console_scripts]\naccelerate = accelerate:main\n",
    }
    record = "".join(f"{name},,\n" for name in [*files, "accelerate-9.9.dist-info/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, "accelerate-9.9.dist-info/RECORD": record}.items():
            archive.writestr(name, text)
    return str(path)


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command == "needs":
        print("\n".join(sorted(needs(arguments))))
    elif command == "metadata":
        print(read_metadata(*arguments))
    elif command == "policy":
        print(policy(*arguments))
    elif command == "hugging_face":
        print(make_hugging_face_wheel(*arguments))
    else:
        sys.exit(f"error: `{command}` is not one of needs, metadata, policy, hugging_face")
