"""HTTP over a bare socket: what is sent is given as bytes, and what comes is recorded as it came."""

import json
import socket
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import normal

Recorded = dict[str, Any]


class Http(NamedTuple):
    """Requests over one connection, each sent when the one before it is answered."""

    name: str
    requests: list[bytes]
    show: str = "plain"
    answers: int = 1
    """Responses to each element of `requests`, which may hold several."""
    headless: bool = False
    """Whether no body may follow, although the headers promise one."""
    while_open: bytes | None = None
    """A stream that has begun before and runs until after."""
    metrics_port: bool = False


def request(
    method: str,
    path: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
    version: str = "1.1",
) -> bytes:
    """A request; a body that is not bytes is JSON."""
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
    lines = {"Host": "localhost", **(headers or {})}
    given = {name.lower() for name in lines}
    if body is not None and not given & {"content-length", "transfer-encoding"}:
        lines["Content-Length"] = str(len(body))
    head = f"{method} {path} HTTP/{version}\r\n" + "".join(f"{name}: {lines[name]}\r\n" for name in lines)
    return head.encode("latin-1") + b"\r\n" + (body or b"")


def one(
    name: str, method: str, path: str, body: object = None, *, show: str = "plain", **options: Any
) -> Http:
    """A case of one request."""
    return Http(name, [request(method, path, body, **options)], show, headless=method == "HEAD")


def post(name: str, path: str, body: object = None, **options: Any) -> Http:
    return one(name, "POST", path, b"" if body is None else body, **options)


def get(name: str, path: str, **options: Any) -> Http:
    return one(name, "GET", path, **options)


def run(case: Http, port: int) -> Recorded | list[Recorded]:
    """Send a case and record what is answered."""
    if case.while_open is None:
        return _run(case, port)
    until = time.monotonic() + 10
    while time.monotonic() < until:
        with Connection(port) as holder:
            holder.send(case.while_open)
            if b" 200 " in holder.until(b"\r\n\r\n"):  # else the last one's slot is not free yet
                holder.until(b"data: ")
                return _run(case, port)
    raise AssertionError("no stream has begun before")


def _run(case: Http, port: int) -> Recorded | list[Recorded]:
    found = []
    with Connection(port) as connection:
        for sent in case.requests:
            connection.send(sent)
            found += [connection.response(case) for _ in range(case.answers)]
        return found[0] if len(found) == 1 else found


class Connection:
    """A client's side of one connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.buffer = b""

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before it was read

    def more(self) -> bool:
        try:
            piece = self.socket.recv(65536)
        except ConnectionResetError:
            piece = b""
        self.buffer += piece
        return bool(piece)

    def until(self, mark: bytes) -> bytes:
        while mark not in self.buffer:
            assert self.more(), f"closed after {self.buffer!r}"
        found, _, self.buffer = self.buffer.partition(mark)
        return found

    def exactly(self, size: int) -> bytes:
        while len(self.buffer) < size:
            assert self.more(), f"closed after {self.buffer!r}"
        found, self.buffer = self.buffer[:size], self.buffer[size:]
        return found

    def rest(self) -> bytes:
        while self.more():
            pass
        found, self.buffer = self.buffer, b""
        return found

    def head(self, stable: bool = True) -> tuple[int, Recorded, dict[str, str]]:
        """A status, what is recorded of it and its headers, and the headers as they are."""
        first, *lines = self.until(b"\r\n\r\n").split(b"\r\n")
        version, status, *_ = first.decode().split(" ")
        headers = normal.headers_of(lines, stable)
        return (
            int(status),
            {"version": version, "status": int(status), "headers": headers},
            dict(line.decode("latin-1").lower().split(": ", 1) for line in lines),
        )

    def response(self, case: Http) -> Recorded:
        """The next response, or that there is none."""
        if not self.buffer and not self.more():
            return {"closed": True}
        status, recorded, headers = self.head(case.show == "plain")
        if status < 200:
            recorded["then"] = self.response(case)
            return recorded
        if case.headless:
            body = self.rest()
        elif headers.get("transfer-encoding") == "chunked":
            body = self.chunks()
        elif "content-length" in headers:
            body = self.exactly(int(headers["content-length"]))
        else:
            body = self.rest()
        recorded["body"] = normal.body_of(body, headers.get("content-encoding"), case.show)
        if headers.get("connection") == "close":
            assert self.rest() == b"", "bytes follow the last response"
        return recorded

    def chunks(self) -> bytes:
        body = b""
        while size := int(self.until(b"\r\n"), 16):
            body += self.exactly(size)
            assert self.exactly(2) == b"\r\n"
        assert self.exactly(2) == b"\r\n"
        return body
