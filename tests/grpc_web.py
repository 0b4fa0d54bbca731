"""A client of gRPC-Web out of httpx and frames made by hand."""

import base64
import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple
from urllib.parse import unquote

import httpx

BINARY = "application/grpc-web+proto"
TEXT = "application/grpc-web-text+proto"
SERVICE = "inference.GRPCInferenceService"


def framed(*messages: bytes, flag: int = 0) -> bytes:
    return b"".join(bytes([flag]) + len(message).to_bytes(4, "big") + message for message in messages)


def trailers_of(block: bytes) -> dict[str, str]:
    lines = block.decode("ascii").split("\r\n")
    assert lines.pop() == ""
    return dict(line.split(":", 1) for line in lines)


class Frames:
    """Reads frames out of pieces of a body, which may be text."""

    def __init__(self, media: str) -> None:
        self._text = "text" in media
        self._chunk = b""
        self._data = b""

    def feed(self, piece: bytes) -> Iterator[tuple[int, bytes]]:
        if self._text:
            text = self._chunk + piece
            whole = len(text) - len(text) % 4
            self._chunk = text[whole:]
            for chunk in re.findall(rb"[^=]+=*", text[:whole]):
                self._data += base64.b64decode(chunk, validate=True)
        else:
            self._data += piece
        while len(self._data) >= 5 and len(self._data) >= (end := 5 + int.from_bytes(self._data[1:5], "big")):
            yield self._data[0], self._data[5:end]
            self._data = self._data[end:]

    @property
    def empty(self) -> bool:
        return not (self._chunk or self._data)


class Ended(NamedTuple):
    """A call to its end."""

    messages: list[bytes]
    trailers: dict[str, str]
    headers: httpx.Headers

    @property
    def status(self) -> int:
        return int(self.trailers["grpc-status"])

    @property
    def message(self) -> str:
        return unquote(self.trailers.get("grpc-message", ""))


def ended(response: httpx.Response) -> Ended:
    assert response.status_code == 200, response.text
    frames = Frames(response.headers["content-type"])
    found = [*frames.feed(response.content)]
    assert frames.empty
    assert [flag for flag, _ in found] == [0] * (len(found) - 1) + [0x80], found
    return Ended([data for _, data in found[:-1]], trailers_of(found[-1][1]), response.headers)


def headers_of(media: str, **more: str) -> dict[str, str]:
    return {"content-type": media, "x-grpc-web": "1"} | {k.replace("_", "-"): v for k, v in more.items()}


def body_of(*messages: bytes, media: str = BINARY) -> bytes:
    return base64.b64encode(framed(*messages)) if "text" in media else framed(*messages)


def call(
    url: str, method: str, *messages: bytes, media: str = BINARY, service: str = SERVICE, **headers: str
) -> Ended:
    """Send all messages in one body, and read the whole response."""
    target = f"{url}/{service}/{method}"
    content = body_of(*messages, media=media)
    return ended(httpx.post(target, content=content, headers=headers_of(media, **headers), timeout=20))


class Stream:
    """A call whose messages are read as they arrive."""

    def __init__(self, url: str, method: str, *messages: bytes, media: str = BINARY, **headers: str) -> None:
        self.trailers: dict[str, str] | None = None
        self._open = ExitStack()
        client = self._open.enter_context(httpx.Client(timeout=20))
        content = body_of(*messages, media=media)
        target = f"{url}/{SERVICE}/{method}"
        self._response = self._open.enter_context(
            client.stream("POST", target, content=content, headers=headers_of(media, **headers))
        )
        self.headers = self._response.headers
        assert self._response.status_code == 200, self._response.read()
        self._frames = self._read(Frames(self._response.headers["content-type"]))

    def _read(self, frames: Frames) -> Iterator[tuple[int, bytes]]:
        for piece in self._response.iter_raw():
            yield from frames.feed(piece)
        assert frames.empty

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        flag, data = next(self._frames)
        if flag:
            self.trailers = trailers_of(data)
            assert [*self._frames] == []
            raise StopIteration
        return data

    def close(self) -> None:
        self._open.close()
