# SPDX-License-Identifier: Apache-2.0
"""Reads an offline run with wandb's own code, and prints JSON lines.

    accelerate_write_run wandb /tmp/runs 0 6
    python3 read_wandb.py /tmp/runs/wandb/offline-run-*

Needs wandb 0.31.0 and nothing else; W&B's servers are not used. It reads the
run in three ways:

- `records`: each record of the file, with the protocol buffers of wandb.
- `inspect`: the state that `wandb leet inspect` prints.
- `sync`: what `wandb sync` sends to a server, which this script starts on
  loopback, with an invented key.
"""

import hashlib
import http.server
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import threading
import urllib.parse
import zlib

import wandb
from google.protobuf import json_format
from wandb.proto import wandb_internal_pb2

BLOCK = 32768
HEADER = struct.Struct("<IHB")


def show(reader, **values):
    print(json.dumps({"reader": reader, **values}, sort_keys=True))


def records(path):
    """Yields the records of a file, whose checksums must be right."""
    content = path.read_bytes()
    assert content[:7] == b":W&B\xe1\xbe\x00", content[:7]
    position, record = 7, b""
    while position < len(content):
        room = BLOCK - position % BLOCK
        if room < HEADER.size:
            assert not any(content[position : position + room])
            position += room
            continue
        checksum, size, kind = HEADER.unpack_from(content, position)
        data = content[position + 7 : position + 7 + size]
        assert zlib.crc32(bytes([kind]) + data) == checksum, position
        position += 7 + size
        record = data if kind in (1, 2) else record + data
        if kind in (1, 4):
            yield record


def show_records(path):
    for content in records(path):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(content)
        size = len(record.SerializeToString())
        record.DiscardUnknownFields()
        assert size == len(record.SerializeToString()), "unknown fields"
        kind = record.WhichOneof("record_type")
        message = getattr(record, kind)
        if kind in ("history", "summary"):
            items = message.item if kind == "history" else message.update
            values = {
                ".".join(item.nested_key): json.loads(item.value_json)
                for item in items
            }
            show("records", number=record.num, kind=kind, values=values)
        else:
            content = json_format.MessageToDict(message)
            show("records", number=record.num, kind=kind, content=content)


class Received:
    """What the server was sent."""

    def __init__(self):
        self.lock = threading.Lock()
        self.runs = []
        self.lines = {}
        self.summary = None
        self.files = {}
        self.complete = None
        self.other = []


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle_request(self):
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size)
        with self.server.received.lock:
            self.answer(self.reply(self.server.received, body))

    do_GET = do_POST = do_PUT = handle_request

    def reply(self, received, body):
        url = urllib.parse.urlsplit(self.path)
        if url.path == "/graphql":
            return {"data": self.data_for(received, json.loads(body))}
        if url.path.endswith("/file_stream"):
            self.add_stream(received, json.loads(body))
            return {"exitcode": None, "limits": {}}
        if url.path == "/upload":
            name = urllib.parse.parse_qs(url.query)["name"][0]
            received.files[name] = body
            return {}
        received.other.append(self.path)
        return {}

    def data_for(self, received, request):
        query = request["query"]
        variables = request.get("variables") or {}
        if "upsertBucket" in query:
            received.runs.append({k: v for k, v in variables.items() if v})
            project = variables.get("project")
            owner = {"id": "o", "name": variables.get("entity") or "somebody"}
            bucket = {
                "id": "b",
                "name": variables.get("name"),
                "displayName": variables.get("displayName") or "generated",
                "description": "",
                "config": variables.get("config") or "{}",
                "sweepName": None,
                "historyLineCount": 0,
                "project": {"id": "p", "name": project, "entity": owner},
            }
            return {"upsertBucket": {"bucket": bucket, "inserted": True}}
        if "createRunFiles" in query:
            base = "http://127.0.0.1:%d/upload?name=" % self.server.server_port
            files = [
                {"name": name, "uploadUrl": base + urllib.parse.quote(name)}
                for name in variables["files"]
            ]
            created = {"runID": "b", "uploadHeaders": [], "files": files}
            return {"createRunFiles": created}
        if "viewer" in query:
            viewer = {"id": "v", "entity": "somebody", "username": "somebody"}
            return {"viewer": {**viewer, "flags": "{}", "teams": {"edges": []}}}
        if "ServerFeatures" in query:
            return {"serverInfo": {"features": []}}
        received.other.append(query.split("(")[0].strip())
        return {}

    def add_stream(self, received, request):
        for name, part in (request.get("files") or {}).items():
            if name == "wandb-summary.json":
                received.summary = json.loads(part["content"][-1])
                continue
            lines = received.lines.setdefault(name, {})
            for i, line in enumerate(part["content"]):
                lines[part["offset"] + i] = line
        if "complete" in request:
            received.complete = [request["complete"], request.get("exitcode")]


def sync(path, port):
    with tempfile.TemporaryDirectory() as home:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "WANDB_BASE_URL": f"http://127.0.0.1:{port}",
            "WANDB_API_KEY": "0" * 40,
            "WANDB_ERROR_REPORTING": "false",
        }
        command = [sys.executable, "-m", "wandb", "sync", "--include-synced"]
        return subprocess.run(
            [*command, str(path.parent)],
            env=environment,
            cwd=home,
            capture_output=True,
            text=True,
            timeout=120,
        )


def show_inspect(path):
    """Prints what `wandb leet`, the viewer in the terminal, reads."""
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json"]
    result = subprocess.run(
        [*command, "--summary", str(path.parent)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    show("inspect", exit_status=result.returncode, error=result.stderr)
    show("inspect", state=json.loads(result.stdout or "null"))


class QuietServer(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        pass  # `wandb sync` resets its connections.


def show_sync(path):
    server = QuietServer(("127.0.0.1", 0), Server)
    server.received = received = Received()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    result = sync(path, server.server_port)
    server.shutdown()
    show("sync", exit_status=result.returncode, output=result.stderr.splitlines())
    run = {}
    for variables in received.runs:
        run.update(variables)
    if "config" in run:
        run["config"] = json.loads(run["config"])
    show("sync", run=run)
    for name, lines in sorted(received.lines.items()):
        for number, line in sorted(lines.items()):
            show("sync", file=name, line=number, values=json.loads(line))
    show("sync", summary=received.summary, complete=received.complete)
    for name, content in sorted(received.files.items()):
        digest = hashlib.sha256(content).hexdigest()
        show("sync", uploaded=name, size=len(content), sha256=digest)
    show("sync", other=sorted(set(received.other)))
    return result.returncode


def main():
    assert wandb.__version__.startswith("0.31."), wandb.__version__
    path = next(pathlib.Path(sys.argv[1]).resolve().glob("run-*.wandb"))
    show_records(path)
    show_inspect(path)
    sys.exit(show_sync(path))


main()
