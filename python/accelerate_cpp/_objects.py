# SPDX-License-Identifier: Apache-2.0
"""Python objects that ranks send to each other.

Unpickling runs code, and Gloo does not authenticate its connections. Each object therefore carries an HMAC over the kind
of the call, the rank, the number of the call and the position of the object. An object is unpickled only if its HMAC
shows that a rank of this run sent it for this call. The key is derived from a secret that only the workers of a run
have: the secret of the store in `accelerate launch`. Without that launcher there is no key, and any program that can
pose as a rank can run code here.
"""

import base64
import functools
import hmac
import os
import pickle
import struct
import warnings
from typing import Any, Iterable, Optional

from . import errors
from .state import PartialState

_TAG_BYTES = 32
_HEADER = struct.Struct("<IQI")  # rank, number of the call, position


@functools.lru_cache(maxsize=None)
def _derived_key(secret: str, run: str, restart: str) -> bytes:
    return hmac.digest(secret.encode(), f"python objects of run {run}, restart {restart}".encode(), "sha256")


def _key() -> Optional[bytes]:
    """The key of this run, or None without the store of `accelerate launch`."""
    run = os.environ.get("ACCELERATE_STORE_RUN")
    secret = os.environ.get("ACCELERATE_STORE_SECRET")
    # A launcher inside one of the workers starts a run of its own, but inherits the variables of this run.
    if not secret or not run or run != os.environ.get("TORCHELASTIC_RUN_ID"):
        return None
    return _derived_key(secret, run, os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


@functools.lru_cache(maxsize=None)
def _warn_once() -> None:
    warnings.warn(
        "Python objects from other machines are unpickled without authentication, so a program that can pose as a rank "
        "can run code in this process; start the processes with `accelerate launch`",
        RuntimeWarning,
        stacklevel=4,
    )


def _tag(key: bytes, kind: str, header: bytes, payload: bytes) -> bytes:
    mac = hmac.new(key, digestmod="sha256")
    for part in (kind.encode(), b"\0", header, payload):
        mac.update(part)
    return mac.digest()


def _refuse(kind: str, position: int):
    raise errors.DistributedError(
        f"{kind}: object {position} was sent by a process outside this run, or for another call",
        "find out which other program connects to this job's ports",
    )


class Exchange:
    """The calls of one kind, which all ranks make in the same order."""

    def __init__(self, kind: str):
        self._kind = kind
        self._calls = 0

    def pack(self, values: Iterable[Any]) -> list:
        """Serializes the objects that this rank sends in the next call."""
        payloads = [pickle.dumps(value) for value in values]
        key = _key()
        if key is None:
            return payloads
        rank = PartialState().process_index
        packed = []
        for position, payload in enumerate(payloads):
            header = _HEADER.pack(rank, self._calls, position)
            packed.append(_tag(key, self._kind, header, payload) + header + payload)
        return packed

    def unpack(self, parts: list, from_rank: Optional[int] = None) -> list:
        """Reads the objects that arrived in this call: from all ranks, or from one rank."""
        key = _key()
        if key is None:
            if PartialState().num_nodes > 1:
                _warn_once()
            return [pickle.loads(part) for part in parts]
        payloads = []
        positions = {}  # the position of the next object of each rank
        for index, part in enumerate(parts):
            header, payload = part[_TAG_BYTES : _TAG_BYTES + _HEADER.size], part[_TAG_BYTES + _HEADER.size :]
            if not hmac.compare_digest(part[:_TAG_BYTES], _tag(key, self._kind, header, payload)):
                _refuse(self._kind, index)
            rank, call, position = _HEADER.unpack(header)
            is_expected = call == self._calls and position == positions.get(rank, 0)
            if not is_expected or from_rank not in (None, rank):
                _refuse(self._kind, index)
            positions[rank] = position + 1
            payloads.append(payload)
        # If a call fails, it fails on all ranks, so the counts stay equal.
        self._calls += 1
        return [pickle.loads(payload) for payload in payloads]


def seal_text(kind: str, value: Any) -> str:
    """Serializes an object as text that is the same each time, for `open_text` on another rank."""
    payload = pickle.dumps(value)
    key = _key()
    return base64.b64encode(payload if key is None else _tag(key, kind, b"", payload) + payload).decode()


def open_text(kind: str, text: str) -> Any:
    data = base64.b64decode(text)
    key = _key()
    if key is None:
        if PartialState().num_nodes > 1:
            _warn_once()
        return pickle.loads(data)
    if not hmac.compare_digest(data[:_TAG_BYTES], _tag(key, kind, b"", data[_TAG_BYTES:])):
        _refuse(kind, 0)
    return pickle.loads(data[_TAG_BYTES:])
