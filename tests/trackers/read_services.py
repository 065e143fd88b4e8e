# SPDX-License-Identifier: Apache-2.0
"""Writes a run with a tracker in a Python process, reads it with the service's own package, and prints JSON lines.

    <python of a virtual environment> read_services.py <service> <accelerate_write_run> [kill]

The service is `aim`, `clearml`, `comet_ml` or `swanlab`, and its package must be installed in the virtual environment
(for `swanlab`, with the extra `media`). No server is used: the services write to files. Tested with aim 3.29.1,
clearml 2.1.12, comet_ml 3.58.8 and swanlab 0.10.3. `kill` kills the program that logs.
"""

import glob
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import zipfile

PACKAGES = pathlib.Path(__file__).resolve().parents[2] / "python"
STEPS = 6


def show(**values):
    print(json.dumps(values, sort_keys=True, default=str))


def write_run(service, program, folder, options):
    environment = {
        "HOME": folder,
        "PATH": f"{pathlib.Path(sys.executable).parent}:/usr/bin:/bin",
        "PYTHONPATH": str(PACKAGES),
        "PYTHONDONTWRITEBYTECODE": "1",
        "CLEARML_OFFLINE_MODE": "1",
        "COMET_START_ONLINE": "0",
        "COMET_OFFLINE_DIRECTORY": os.path.join(folder, "comet"),
        "COMET_API_KEY": "not-a-real-key",
        "SWANLAB_MODE": "offline",
    }
    command = [program, service, os.path.join(folder, "runs"), "0", str(STEPS), *options]
    result = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=300)
    show(exit_status=result.returncode, output=result.stderr.splitlines())


def tracker_processes(folder):
    """Returns the processes of trackers that write into `folder`."""
    found = []
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            variables = pathlib.Path(path).read_bytes().split(b"\0")
        except OSError:
            continue
        if f"HOME={folder}".encode() in variables:
            found.append(int(path.split("/")[2]))
    return found


def wait_for_the_end(folder):
    """Waits until no process of the run is left; shows how long that took."""
    start = time.monotonic()
    while tracker_processes(folder):
        if time.monotonic() > start + 60:
            sys.exit(f"left over: {tracker_processes(folder)}")
        time.sleep(0.1)
    show(seconds_until_all_processes_ended=round(time.monotonic() - start, 1))


def read_aim(folder):
    import aim
    from aim.sdk.types import QueryReportMode

    repository = os.path.join(folder, "runs")
    # `aim up` does this, too.
    command = [pathlib.Path(sys.executable).with_name("aim"), "storage", "--repo", repository, "reindex"]
    subprocess.run(command, check=True, capture_output=True, input=b"y\n", timeout=120)
    repo = aim.Repo(repository)
    (run,) = repo.iter_runs()
    show(name=run.name, hparams=run["hparams"])
    for kind in ("metrics", "texts", "images", "distributions"):
        for sequence in getattr(repo, f"query_{kind}")("", report_mode=QueryReportMode.DISABLED).iter():
            steps, (values, *_) = sequence.data.items_list()
            if not sequence.name.startswith("__system__"):
                show(kind=kind, name=sequence.name, steps=list(steps), values=[describe(value) for value in values])


def describe(value):
    if isinstance(value, list):
        return [describe(item) for item in value]
    if hasattr(value, "size"):
        return f"image of {value.size[0]} x {value.size[1]}"
    if hasattr(value, "to_np_histogram"):
        return [list(map(float, numbers)) for numbers in value.to_np_histogram()]
    return value.data if hasattr(value, "data") else repr(value)


def json_lines(text):
    for line in text.splitlines():
        content = json.loads(line)
        yield from content if isinstance(content, list) else [content]


def read_clearml(folder):
    (path,) = glob.glob(os.path.join(folder, ".clearml/cache/offline/*.zip"))
    with zipfile.ZipFile(path) as archive:
        task = json.loads(archive.read("task.json"))
        show(name=task["name"], configuration=task.get("configuration"))
        for event in json_lines(archive.read("metrics.jsonl").decode()):
            wanted = ("type", "metric", "variant", "iter", "value", "key")
            show(**{key: value for key, value in event.items() if key in wanted})
        events = json_lines(archive.read("log.jsonl").decode())
        lines = [line for event in events for line in event.get("msg", "").splitlines()]
        show(texts=[line for line in lines if line.startswith(("note", "not finite"))])
        show(images=[name for name in archive.namelist() if name.endswith((".jpeg", ".png"))])


def read_comet_ml(folder):
    (path,) = glob.glob(os.path.join(folder, "comet/*.zip"))
    with zipfile.ZipFile(path) as archive:
        show(experiment=json.loads(archive.read("experiment.json"))["project_name"])
        for event in json_lines(archive.read("messages.json").decode()):
            payload = event["payload"]
            for key in ("metric", "params", "param", "log_other"):
                if payload.get(key):
                    show(**{key: payload[key]})
            if event["type"] == "log_other":
                show(other={key: payload.get(key) for key in ("key", "value")})
            if event["type"] == "file_upload":
                show(upload=payload.get("upload_type"), name=(payload.get("additional_params") or {}).get("fileName"))


def read_swanlab(folder):
    (run,) = glob.glob(os.path.join(folder, "swanlog/run-*"))
    show(files=sorted(os.path.relpath(path, run) for path in glob.glob(f"{run}/**/*.*", recursive=True)))
    show(config=pathlib.Path(run, "files/config.yaml").read_text())
    content = b"".join(pathlib.Path(path).read_bytes() for path in glob.glob(f"{run}/*.swanlab"))
    show(bytes=len(content), keys=[key for key in ("train/loss", "epoch", "note", "eval/two") if key.encode() in content])


def main():
    service, program, *options = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        write_run(service, os.path.abspath(program), folder, options)
        wait_for_the_end(folder)
        globals()[f"read_{service}"](folder)


main()
