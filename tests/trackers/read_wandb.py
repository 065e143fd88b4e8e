# SPDX-License-Identifier: Apache-2.0
"""Reads an offline run with wandb's own code.

W&B's servers are not used. The run is read in three ways:

- Each record of the file is parsed with the protocol buffers of wandb.
- `wandb leet inspect`, the viewer in the terminal, must accept the run.
- The printed values are those that `wandb sync` sends to a server, which this
  script starts on loopback, with an invented key.
"""

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

import run_content
from wandb.proto import wandb_internal_pb2

BLOCK = 32768
HEADER = struct.Struct("<IHB")


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


def check_records(path):
    for content in records(path):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(content)
        size = len(record.SerializeToString())
        record.DiscardUnknownFields()
        assert size == len(record.SerializeToString()), "unknown fields"


class Received:
    """What the server was sent."""

    def __init__(self):
        self.lock = threading.Lock()
        self.runs = []
        self.lines = {}
        self.files = {}


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
        return {}

    def add_stream(self, received, request):
        for name, part in (request.get("files") or {}).items():
            lines = received.lines.setdefault(name, {})
            for i, line in enumerate(part["content"]):
                lines[part["offset"] + i] = line


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


def check_inspect(path):
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json"]
    subprocess.run(
        [*command, "--summary", str(path.parent)],
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=60,
    )


class QuietServer(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        pass  # `wandb sync` resets its connections.


def received_from(path):
    """Returns what `wandb sync` sends."""
    server = QuietServer(("127.0.0.1", 0), Server)
    server.received = Received()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    result = sync(path, server.server_port)
    server.shutdown()
    assert result.returncode == 0, result.stderr
    return server.received


def main():
    (path,) = pathlib.Path(sys.argv[1]).resolve().glob("wandb/*/run-*.wandb")
    check_records(path)
    check_inspect(path)
    received = received_from(path)
    content = run_content.RunContent()
    for _, line in sorted(received.lines["wandb-history.jsonl"].items()):
        row = json.loads(line)
        step = row["_step"]
        for key, value in row.items():
            kind = value.get("_type") if isinstance(value, dict) else None
            if kind == "image-file":
                content.add_picture(key, received.files[value["path"]])
            elif kind == "images/separated":
                for name in value["filenames"]:
                    content.add_picture(key, received.files[name])
            elif not key.startswith("_"):
                content.add(key, step, value)
    for variables in received.runs:
        for name, member in json.loads(variables.get("config") or "{}").items():
            if name != "_wandb":
                content.config[name] = member["value"]
    content.show()


main()
