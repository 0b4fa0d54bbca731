"""A REST client that opens one connection per call and does not modify headers or interpret bodies."""

import json
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from .outcome import Difference, short

HEADER_LENGTH = "Inference-Header-Content-Length"


@dataclass(frozen=True)
class Answer:
    """A complete response. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the parsed JSON body. Raises Difference if it is not JSON."""
        return parse(self.body)

    def document(self) -> dict[str, Any]:
        """Return the JSON object in the body. Raises Difference if it is not one."""
        document = self.json()
        if not isinstance(document, dict):
            raise Difference(f"expected a JSON object, got {short(document)}")
        return document

    def ok(self) -> dict[str, Any]:
        """Return the JSON object of a response that must have status 200."""
        if self.status != 200:
            raise Difference(f"expected status 200, got {self.status}: {short(self.body)}")
        return self.document()


@dataclass(frozen=True)
class Events:
    """A stream of server-sent events. `times` are the arrival times of the lines, in seconds."""

    status: int
    headers: Mapping[str, str]
    lines: tuple[bytes, ...]
    times: tuple[float, ...]

    def data(self) -> list[Any]:
        """Return the JSON value of each event."""
        return [parse(line[5:]) for line in self.lines if line.startswith(b"data:")]


def parse(text: bytes) -> Any:
    """Parse JSON. Raises Difference if it is invalid."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise Difference(f"expected JSON, got {short(text)}") from error


class Http:
    """A REST client of one server."""

    def __init__(self, url: str, timeout: float) -> None:
        parts = urlsplit(url)
        self._secure = parts.scheme == "https"
        self._address = parts.netloc
        self._prefix = parts.path.rstrip("/")
        self._timeout = timeout

    def call(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a request and return the response. Raises Difference if there is none."""
        connection, response = self._open(method, path, body, headers or {})
        try:
            return Answer(response.status, _lower(response), response.read())
        except (OSError, HTTPException) as error:
            raise Difference(f"{method} {path}: the response broke off: {error!r}") from error
        finally:
            connection.close()

    def get(self, path: str) -> Answer:
        """Send a GET request."""
        return self.call("GET", path)

    def post(self, path: str, document: Any) -> Answer:
        """Send a POST request with a JSON body."""
        return self.call("POST", path, json.dumps(document).encode(), {"Content-Type": "application/json"})

    def binary(
        self,
        path: str,
        document: Any,
        blobs: bytes = b"",
        length: str | None = None,
        name: str = HEADER_LENGTH,
    ) -> Answer:
        """Send a POST request with JSON followed by binary data.

        The header `name` has the length of the JSON.
        """
        text = json.dumps(document).encode()
        headers = {"Content-Type": "application/octet-stream", name: length or str(len(text))}
        return self.call("POST", path, text + blobs, headers)

    def events(self, path: str, document: Any) -> Events:
        """Send a POST request with a JSON body, and return the events of the response."""
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        connection, response = self._open("POST", path, json.dumps(document).encode(), headers)
        try:
            timed = [(line, time.monotonic()) for line in _lines(response)]
        except (OSError, HTTPException) as error:
            raise Difference(f"POST {path}: the stream broke off: {error!r}") from error
        finally:
            connection.close()
        lines, times = tuple(line for line, _ in timed), tuple(moment for _, moment in timed)
        return Events(response.status, _lower(response), lines, times)

    def _open(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[HTTPConnection, HTTPResponse]:
        connection: HTTPConnection
        if self._secure:
            context = ssl.create_default_context()
            connection = HTTPSConnection(self._address, timeout=self._timeout, context=context)
        else:
            connection = HTTPConnection(self._address, timeout=self._timeout)
        try:
            connection.request(method, self._prefix + path, body or None, dict(headers))
            return connection, connection.getresponse()
        except (OSError, HTTPException) as error:
            connection.close()
            raise Difference(f"{method} {path}: no response: {error!r}") from error


def _lines(response: HTTPResponse) -> Iterator[bytes]:
    while line := response.readline():
        yield line.rstrip(b"\n")


def _lower(response: HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}
