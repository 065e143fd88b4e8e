#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Hub server on loopback with one model. A scenario defines its faults.

    hub_server.py <scenario as JSON>

Prints two ports on one line: its own, and the port of a second server for large
files. Exits when its stdin is closed. The scenario:

    name, commit      the model; `old/model` redirects to it
    files             name -> text, {"size": n} for a large file of that size, or
                      {"path": file} for a large file with the content of that file
    log               file that gets one line of JSON per request
    token             token that requests must send; otherwise the status is 401
    gated             status 401 with the error code of a gated model
    missing           "repo" | "revision": status 404 with that error code
    statuses          {"list" | "head" | "get": [status, ...]}: first responses
    retry_after       seconds, sent with those responses
    disconnect_after  [n, ...]: a download disconnects after n bytes, once each
    hang_after        a download of a large file hangs after n bytes, once
    wait_for_heads    a download pauses halfway until this many HEAD requests came
    redirect          large files are redirected to the second server
    announced_size    size that HEAD reports, instead of the true one
    no_size           a redirect to a large file does not report a size
    corrupt           name of a file of which wrong bytes are sent
    no_ranges         range requests get the whole file
    headers           {"x-repo-commit": text or null, ...}: overrides headers
    listing           raw text, instead of the list of files
"""

import hashlib
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

SCENARIO = json.loads(sys.argv[1])
LOCK = threading.Lock()
COUNTS = {"head": 0}
WAIT_TIMEOUT = 30


def content(name):
    file = SCENARIO["files"][name]
    if isinstance(file, str):
        return file.encode()
    if "path" in file:
        with open(file["path"], "rb") as source:
            return source.read()
    block = hashlib.sha256(name.encode()).digest()
    return (block * (file["size"] // len(block) + 1))[:file["size"]]


def is_large(name):
    return not isinstance(SCENARIO["files"][name], str)


def etag(name):
    data = content(name)
    if is_large(name):
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def take(kind, key=None):
    """Returns the next value of a list in the scenario, or None."""
    with LOCK:
        values = SCENARIO.get(kind, [])
        if isinstance(values, dict):
            values = values.get(key, [])
        return values.pop(0) if values else None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    second = False

    def log_message(self, *_):
        pass

    def write_log(self):
        with LOCK, open(SCENARIO["log"], "a") as log:
            log.write(json.dumps({
                "method": self.command, "path": self.path,
                "server": 2 if self.second else 1,
                "authorization": self.headers.get("Authorization"),
                "range": self.headers.get("Range")}) + "\n")

    def respond(self, status, headers=None, body=b"", send=True):
        headers = dict(headers or {})
        headers.setdefault("Content-Length", str(len(body)))
        for name, value in SCENARIO.get("headers", {}).items():
            known = [k for k in headers if k.lower() == name]
            for key in known:
                del headers[key]
            if known and value is not None:
                headers[name] = value
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if send and self.command != "HEAD":
            self.wfile.write(body)

    def access_denied(self):
        """Responds and returns True if the scenario denies access."""
        if SCENARIO.get("gated"):
            self.respond(401, {"X-Error-Code": "GatedRepo",
                              "X-Error-Message": "Access is restricted"})
            return True
        missing = SCENARIO.get("missing")
        if missing:
            code = "RepoNotFound" if missing == "repo" else "RevisionNotFound"
            self.respond(404, {"X-Error-Code": code})
            return True
        token = SCENARIO.get("token")
        if token and self.headers.get("Authorization") != f"Bearer {token}":
            self.respond(401, {"X-Error-Message": "Invalid username or password."})
            return True
        return False

    def failed(self, kind):
        """Responds and returns True if the scenario has a status for this request."""
        status = take("statuses", kind)
        if status is None:
            return False
        headers = {}
        if "retry_after" in SCENARIO:
            headers["Retry-After"] = str(SCENARIO["retry_after"])
        self.respond(status, headers, b"not now")
        return True

    def do_HEAD(self):
        self.serve()

    def do_GET(self):
        self.serve()

    def serve(self):
        self.write_log()
        if self.second:
            self.send_file(unquote(self.path.split("?")[0].strip("/")))
            return
        name, commit = SCENARIO["name"], SCENARIO["commit"]
        if "/old/model/" in self.path:
            self.respond(307, {"Location": self.path.replace("old/model", name, 1)})
            return
        if self.access_denied():
            return
        if self.path.startswith(f"/api/models/{name}/revision/"):
            if not self.failed("list"):
                self.list_files()
            return
        prefixes = [f"/{name}/resolve/{revision}/" for revision in (commit, "main")]
        prefix = next((p for p in prefixes if self.path.startswith(p)), None)
        if prefix is None:
            self.respond(404, {"X-Error-Code": "RepoNotFound"})
            return
        file = unquote(self.path[len(prefix):])
        if file not in SCENARIO["files"]:
            self.respond(404, {"X-Error-Code": "EntryNotFound",
                              "X-Repo-Commit": commit})
        elif not self.failed(self.command.lower()):
            self.send_model_file(file)

    def list_files(self):
        text = SCENARIO.get("listing")
        if text is None:
            text = json.dumps({
                "sha": SCENARIO["commit"],
                "siblings": [{"rfilename": n} for n in SCENARIO["files"]]})
        self.respond(200, {"Content-Type": "application/json"}, text.encode())

    def send_model_file(self, name):
        if self.command == "HEAD" and is_large(name):
            with LOCK:
                COUNTS["head"] += 1
        metadata = {"X-Repo-Commit": SCENARIO["commit"], "ETag": f'"{etag(name)}"'}
        size = len(content(name))
        if is_large(name):
            size = SCENARIO.get("announced_size", size)
        if is_large(name) and SCENARIO.get("redirect"):
            metadata["ETag"] = '"of-the-pointer"'
            metadata["X-Linked-ETag"] = f'"{etag(name)}"'
            if not SCENARIO.get("no_size"):
                metadata["X-Linked-Size"] = str(size)
            metadata["Location"] = f"http://127.0.0.1:{PORTS[1]}/{name}?signature=x"
            self.respond(302, metadata, b"redirected")
        elif self.command == "HEAD":
            metadata["Content-Length"] = str(size)
            self.respond(200, metadata)
        else:
            self.send_file(name, metadata)

    def send_file(self, name, metadata=None):
        data = content(name)
        if SCENARIO.get("corrupt") == name:
            data = bytes(byte ^ 1 for byte in data)
        headers = dict(metadata or {})
        status, begin = 200, 0
        requested_range = self.headers.get("Range")
        if requested_range and not SCENARIO.get("no_ranges"):
            begin = int(requested_range.split("=")[1].split("-")[0])
            if begin >= len(data):
                self.respond(416)
                return
            status = 206
            headers["Content-Range"] = f"bytes {begin}-{len(data) - 1}/{len(data)}"
        data = data[begin:]
        headers["Content-Length"] = str(len(data))
        self.respond(status, headers, send=False)
        self.send_data(name, data)

    def send_data(self, name, data):
        limit = take("disconnect_after") if is_large(name) else None
        if limit is not None:
            self.wfile.write(data[:limit])
            self.close_connection = True
            return
        if is_large(name) and "hang_after" in SCENARIO:
            self.wfile.write(data[:SCENARIO.pop("hang_after")])
            self.wfile.flush()
            self.rfile.read(1)  # Until the client disconnects.
            self.close_connection = True
            return
        if is_large(name) and "wait_for_heads" in SCENARIO:
            half = len(data) // 2
            self.wfile.write(data[:half])
            self.wfile.flush()
            end = time.monotonic() + WAIT_TIMEOUT
            while COUNTS["head"] < SCENARIO["wait_for_heads"]:
                if time.monotonic() > end:
                    self.close_connection = True
                    return
                time.sleep(0.005)
            data = data[half:]
        self.wfile.write(data)


class SecondHandler(Handler):
    second = True


SERVERS = [ThreadingHTTPServer(("127.0.0.1", 0), kind)
           for kind in (Handler, SecondHandler)]
PORTS = [server.server_address[1] for server in SERVERS]
for server in SERVERS:
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # Clients may disconnect.
    threading.Thread(target=server.serve_forever, daemon=True).start()
print(*PORTS, flush=True)
sys.stdin.read()
