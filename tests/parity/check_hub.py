#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the download cache with the cache of huggingface_hub.

    tests/parity/check_hub.py build/bin/tests/hub_client   (huggingface_hub 2.4.0)
    tests/parity/check_hub.py --write                      golden/hub_cache.json

Both libraries download the same model from tests/support/hub_server.py, and
each reads the cache of the other. The golden file lists the files that Python
writes.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SERVER = HERE.parent / "support" / "hub_server.py"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {"config.json": "{\"model_type\": \"bert\"}", "tokenizer.json": "{}",
         "model.safetensors": {"size": 1000}}


def start_server(folder, redirect):
    scenario = {"name": "org/model", "commit": COMMIT, "files": FILES,
                "log": str(folder / "log"), "redirect": redirect}
    server = subprocess.Popen(
        [sys.executable, str(SERVER), json.dumps(scenario)], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    return server, int(server.stdout.readline().split()[0])


def in_python(cache, port, offline):
    """Downloads with Python, or reads the cache; returns the snapshot folder."""
    code = ("import sys\nfrom huggingface_hub import hf_hub_download\n"
            "paths = [hf_hub_download('org/model', name) for name in sys.argv[1:]]\n"
            "print(paths[0])")
    environment = {**os.environ, "HF_HUB_CACHE": str(cache), "HF_HUB_DISABLE_XET": "1",
                   "HF_ENDPOINT": f"http://127.0.0.1:{port}",
                   "HF_HUB_OFFLINE": "1" if offline else "0"}
    result = subprocess.run([sys.executable, "-c", code, *FILES], text=True, check=True,
                            env=environment, stdout=subprocess.PIPE, timeout=120)
    return Path(result.stdout.strip()).parent


def in_cpp(client, cache, port, offline):
    environment = {"HF_HUB_CACHE": str(cache), "HF_HOME": str(cache),
                   "HF_ENDPOINT": f"http://127.0.0.1:{port}",
                   "HF_HUB_OFFLINE": "1" if offline else "0"}
    result = subprocess.run([client, "org/model"], text=True, check=True,
                            env=environment, stdout=subprocess.PIPE, timeout=120)
    return Path(result.stdout.strip())


def layout(cache):
    """Maps every path of the model to its content or link target."""
    root = cache / "models--org--model"
    entries = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            entries[name] = {"link": os.readlink(path)}
        elif path.is_file():
            data = path.read_bytes()
            entries[name] = {"text": data.decode()} if data.isascii() else {"size": len(data)}
    return entries


def shared(entries):
    """Returns the entries that both libraries write; Python also writes
    metadata."""
    return {name: entry for name, entry in entries.items()
            if name.split("/")[0] in ("blobs", "refs", "snapshots")}


def write_golden():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server, port = start_server(folder, redirect=True)
        try:
            in_python(folder / "cache", port, offline=False)
        finally:
            server.kill()
        golden = {"made_by": "huggingface_hub 2.4.0", "entries": layout(folder / "cache")}
        (HERE / "golden" / "hub_cache.json").write_text(json.dumps(golden, indent=1) + "\n")


def check(client, redirect):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server, port = start_server(folder, redirect)
        try:
            cpp_snapshot = in_cpp(client, folder / "cpp", port, offline=False)
            python_snapshot = in_python(folder / "python", port, offline=False)
        finally:
            server.kill()
        cpp_entries = shared(layout(folder / "cpp"))
        python_entries = shared(layout(folder / "python"))
        assert cpp_entries == python_entries, (cpp_entries, python_entries)
        assert in_python(folder / "cpp", port, offline=True) == cpp_snapshot
        assert in_cpp(client, folder / "python", port, offline=True) == python_snapshot


def main():
    if sys.argv[1:] == ["--write"]:
        write_golden()
        return
    for redirect in (False, True):
        check(sys.argv[1], redirect)
    print("hub: each library reads the cache of the other")


if __name__ == "__main__":
    main()
