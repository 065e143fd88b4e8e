#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Hub of one model on loopback, which misbehaves as it is told.

    hub_server.py <scenario as JSON>

Prints its port and that of a second server, where large files lie, on one
line. Ends when its input ends. The scenario:

    name, commit    the model; `old/model` redirects to it
    files           name -> text, {"size": n} for a large file of that size, or
                    {"path": file} for a large file with that one's bytes
    log             file that gets a line of JSON for each request
    token           what a request must carry; without one the answer is 401
    gated           401 with the code of a gated model
    missing         "repo" | "revision": 404 with that code
    answers         {"list" | "head" | "get": [status, ...]}: first answers
    retry_after     seconds, sent with those
    cut             [n, ...]: a download ends after n bytes, once each
    hang_after      a download of a large file stops after n bytes, once
    wait_for_heads  a download waits at half until so many asked HEAD for it
    elsewhere       large files are redirected to the second server
    promise         length that HEAD tells, instead of the true one
    corrupt         the bytes sent are others
    no_ranges       a part that is asked for is answered with the whole
    headers         {"x-repo-commit": text or null, ...}: changes the answers
    listing         raw text, in place of the list
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
LONGEST_WAIT = 30


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
    """The next of a list of the scenario, or None."""
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

    def note(self):
        with LOCK, open(SCENARIO["log"], "a") as log:
            log.write(json.dumps({
                "method": self.command, "path": self.path,
                "server": 2 if self.second else 1,
                "authorization": self.headers.get("Authorization"),
                "range": self.headers.get("Range")}) + "\n")

    def answer(self, status, headers=None, body=b"", send=True):
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

    def refused(self):
        """Whether the request ended here, for reasons of access."""
        if SCENARIO.get("gated"):
            self.answer(401, {"X-Error-Code": "GatedRepo",
                              "X-Error-Message": "Access is restricted"})
            return True
        missing = SCENARIO.get("missing")
        if missing:
            code = "RepoNotFound" if missing == "repo" else "RevisionNotFound"
            self.answer(404, {"X-Error-Code": code})
            return True
        token = SCENARIO.get("token")
        if token and self.headers.get("Authorization") != f"Bearer {token}":
            self.answer(401, {"X-Error-Message": "Invalid username or password."})
            return True
        return False

    def stumbled(self, kind):
        status = take("answers", kind)
        if status is None:
            return False
        headers = {}
        if "retry_after" in SCENARIO:
            headers["Retry-After"] = str(SCENARIO["retry_after"])
        self.answer(status, headers, b"not now")
        return True

    def do_HEAD(self):
        self.serve()

    def do_GET(self):
        self.serve()

    def serve(self):
        self.note()
        if self.second:
            self.send_file(unquote(self.path.split("?")[0].strip("/")))
            return
        name, commit = SCENARIO["name"], SCENARIO["commit"]
        if "/old/model/" in self.path:
            self.answer(307, {"Location": self.path.replace("old/model", name, 1)})
            return
        if self.refused():
            return
        if self.path.startswith(f"/api/models/{name}/revision/"):
            if not self.stumbled("list"):
                self.list_files()
            return
        prefixes = [f"/{name}/resolve/{revision}/" for revision in (commit, "main")]
        prefix = next((p for p in prefixes if self.path.startswith(p)), None)
        if prefix is None:
            self.answer(404, {"X-Error-Code": "RepoNotFound"})
            return
        file = unquote(self.path[len(prefix):])
        if file not in SCENARIO["files"]:
            self.answer(404, {"X-Error-Code": "EntryNotFound",
                              "X-Repo-Commit": commit})
        elif not self.stumbled(self.command.lower()):
            self.send_model_file(file)

    def list_files(self):
        text = SCENARIO.get("listing")
        if text is None:
            text = json.dumps({
                "sha": SCENARIO["commit"],
                "siblings": [{"rfilename": n} for n in SCENARIO["files"]]})
        self.answer(200, {"Content-Type": "application/json"}, text.encode())

    def send_model_file(self, name):
        if self.command == "HEAD" and is_large(name):
            with LOCK:
                COUNTS["head"] += 1
        about = {"X-Repo-Commit": SCENARIO["commit"], "ETag": f'"{etag(name)}"'}
        size = len(content(name))
        if is_large(name):
            size = SCENARIO.get("promise", size)
        if is_large(name) and SCENARIO.get("elsewhere"):
            about["ETag"] = '"of-the-pointer"'
            about["X-Linked-ETag"] = f'"{etag(name)}"'
            about["X-Linked-Size"] = str(size)
            about["Location"] = f"http://127.0.0.1:{PORTS[1]}/{name}?signature=x"
            self.answer(302, about, b"elsewhere")
        elif self.command == "HEAD":
            about["Content-Length"] = str(size)
            self.answer(200, about)
        else:
            self.send_file(name, about)

    def send_file(self, name, about=None):
        data = content(name)
        if SCENARIO.get("corrupt"):
            data = bytes(byte ^ 1 for byte in data)
        headers = dict(about or {})
        status, begin = 200, 0
        asked = self.headers.get("Range")
        if asked and not SCENARIO.get("no_ranges"):
            begin = int(asked.split("=")[1].split("-")[0])
            if begin >= len(data):
                self.answer(416)
                return
            status = 206
            headers["Content-Range"] = f"bytes {begin}-{len(data) - 1}/{len(data)}"
        data = data[begin:]
        headers["Content-Length"] = str(len(data))
        self.answer(status, headers, send=False)
        self.send_data(name, data)

    def send_data(self, name, data):
        cut = take("cut") if is_large(name) else None
        if cut is not None:
            self.wfile.write(data[:cut])
            self.close_connection = True
            return
        if is_large(name) and "hang_after" in SCENARIO:
            self.wfile.write(data[:SCENARIO.pop("hang_after")])
            self.wfile.flush()
            self.rfile.read(1)  # Until the client goes.
            self.close_connection = True
            return
        if is_large(name) and "wait_for_heads" in SCENARIO:
            half = len(data) // 2
            self.wfile.write(data[:half])
            self.wfile.flush()
            end = time.monotonic() + LONGEST_WAIT
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
    server.handle_error = lambda *_: None  # Clients that go are expected.
    threading.Thread(target=server.serve_forever, daemon=True).start()
print(*PORTS, flush=True)
sys.stdin.read()
