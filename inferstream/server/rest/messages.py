"""HTTP requests and responses as bytes: heads, bodies, compression and errors."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any

import orjson

from ...concurrency.scope import ClientLeft as ClientLeft
from ...dataplane.caller import SplitHeaders
from ...errors import Code, InferstreamError, InvalidRequest, Refused, UnsupportedEncoding
from ...protos.unwritable_outputs import unwritable
from ..compression import DEFLATE, GZIP, deflate, inflate, too_large
from ..headers import sendable as sendable
from ..status import Profile, http_headers, status_of

logger = logging.getLogger("inferstream.rest")

RawHeaders = list[tuple[bytes, bytes]]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

PREFIX = "inferstream.prefix"
"""The key of the application's mount prefix in a scope."""

JSON = (b"content-type", b"application/json")

LATE = b'{"error":"The request was not received in time."}'
"""The body of a response with status 408."""

BODY_SETTING = "max_body_bytes"
"""The setting that limits most bodies, and messages of WebSockets."""

PARSE_IN_THREAD = 256 * 1024
"""Bodies and messages larger than this are inflated, counted and parsed off the event loop."""

COUNT_ON_ARRIVAL = 4 * 2**20
"""JSON larger than this is counted piece by piece, before it is whole."""

INFLATE_IN_THREAD = 4 * 1024
"""The same for compressed bodies, which become a thousand times larger at most."""

COMPRESS_IN_THREAD = 64 * 1024
"""Bodies larger than this are compressed off the event loop."""

UPLOADS = (b"multipart/", b"image/", b"audio/", b"video/", b"application/octet-stream", b"text/plain")
"""How the media types of forms and files begin. Clients send JSON as the last two as well."""

DIGITS = 20
"""Digits that a length may have. Python reads no more than 4,300; no body needs as many as these."""


class Head:
    """The headers of a request that the server reads; of a repeated one, the last."""

    __slots__ = (
        "accept_encoding",
        "connection",
        "content_length",
        "encoding",
        "expect",
        "json_length",
        "last_event_id",
        "limited",
        "media_type",
        "pace",
        "prefer",
        "priority",
        "request_id",
        "split",
        "timeout",
        "trusted",
        "uploads",
    )

    def __init__(self, headers: RawHeaders) -> None:
        find = dict(headers).get
        self.media_type = find(b"content-type", b"")
        self.uploads = self.media_type.lower().startswith(UPLOADS)
        """Whether the body may be a form or a file."""
        self.encoding = find(b"content-encoding", b"").strip().lower()
        self.accept_encoding = find(b"accept-encoding", b"")
        self.connection = find(b"connection")
        self.content_length = find(b"content-length")
        self.expect = find(b"expect")
        self.json_length = find(b"inference-header-content-length")
        self.last_event_id = find(b"last-event-id")
        self.pace = find(b"x-items-per-second")
        self.prefer = find(b"prefer")
        self.priority = find(b"x-request-priority")
        self.request_id = find(b"x-request-id")
        self.timeout = find(b"x-request-timeout")
        self.limited = not (self.pace is self.priority is self.timeout is None)
        """Whether it states a limit or a priority."""
        self.split: SplitHeaders | None = None
        """Headers for models, and those that may hold credentials; None before the first request with this head."""
        self.trusted = False
        """Whether the headers are those of no foreign page, and announce a body that may come."""

    def header_length(self, size: int) -> int | None:
        """Bytes of JSON before binary tensors, or None. Raises InvalidRequest."""
        if self.json_length is None:
            return None
        length = self.announced_json()
        if length is None or length > size:
            raise InvalidRequest(
                f"Inference-Header-Content-Length must be a number of bytes within the body's {size}."
            )
        return length

    def announced_json(self) -> int | None:
        """Bytes of JSON that the client announces, or None where that is no length."""
        text = self.json_length
        return int(text) if text is not None and text.isdigit() and len(text) <= DIGITS else None


async def read_body(head: Head, receive: Receive, limit: int, setting: str = BODY_SETTING) -> bytes:
    """The decompressed body, of at most `limit` bytes. Errors name the setting of the limit, if it has one.

    Raises PayloadTooLarge, UnsupportedEncoding, InvalidRequest, ClientLeft.
    """
    expect_body(head, limit, setting=setting)
    return plain(head, await receive_all(receive, limit), limit, setting)


def expect_body(head: Head, limit: int, in_parts: bool = False, setting: str = BODY_SETTING) -> None:
    """Check a head before the body is received, which few routes take in parts.

    Raises PayloadTooLarge, UnsupportedEncoding.
    """
    if head.media_type.startswith(b"multipart/") and not in_parts:
        raise UnsupportedEncoding("multipart bodies are not accepted")
    if head.content_length is not None and int(head.content_length) > limit:
        raise too_large("body", limit, setting)


def plain(head: Head, body: bytes, limit: int, setting: str = BODY_SETTING) -> bytes:
    """The decompressed body. Raises PayloadTooLarge, UnsupportedEncoding, InvalidRequest."""
    if len(body) > limit:
        raise too_large("body", limit, setting)
    if head.encoding and head.encoding != b"identity":
        return decompress(body, head.encoding, limit, setting)
    return body


async def receive_all(receive: Receive, limit: int, counts: Sequence[Callable[[bytes], None]] = ()) -> bytes:
    """The whole body, or the beginning of one larger than `limit`. Raises ClientLeft, and what `counts` raise."""
    pieces: list[bytes] = []
    size = 0
    while size <= limit:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientLeft
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size <= limit:
            for count in counts:
                count(pieces[-1])
        if not message.get("more_body", False):
            break
    return b"".join(pieces)  # once, because a copy of 45 MB takes 40 ms


def decompress(body: bytes, encoding: bytes, limit: int, setting: str) -> bytes:
    """The body without one layer of gzip or deflate, of at most `limit` bytes."""
    encoding = encoding.removeprefix(b"x-")  # x-gzip is gzip (RFC 9110 section 8.4.1.3)
    if encoding not in (GZIP, DEFLATE):
        raise UnsupportedEncoding(f"Content-Encoding {encoding.decode('latin-1')!r} is not gzip or deflate.")
    return inflate(body, encoding, limit, "body", setting)


def accepted(accept: bytes) -> bytes | None:
    """The encoding of a response to this Accept-Encoding: gzip, deflate, or None for identity."""
    weights: dict[str, float] = {}
    for item in accept.decode("latin-1").lower().split(","):
        name, _, options = item.partition(";")
        key, _, weight = options.strip().partition("=")
        try:
            weights[name.strip()] = float(weight) if key.strip() == "q" else 1.0
        except ValueError:
            weights[name.strip()] = 0.0
    best = max(("gzip", "deflate"), key=lambda name: weights.get(name, 0.0))
    chosen = weights.get(best, 0.0)
    return best.encode() if chosen > 0 and chosen >= weights.get("identity", 0.0) else None


async def compress(body: bytes, encoding: bytes) -> bytes:
    """`body` in gzip or deflate (zlib) form; large bodies are compressed in a thread."""
    if len(body) > COMPRESS_IN_THREAD:
        return await asyncio.to_thread(deflate, body, encoding)
    return deflate(body, encoding)


async def respond(
    send: Send, status: int, body: bytes, headers: RawHeaders, *, typed_last: bool = False
) -> None:
    """Send a whole response. Some have their content type last, where a framework put it once."""
    headers.append((b"content-length", b"%d" % len(body)))
    if typed_last:
        headers.sort(key=lambda pair: pair[0] == b"content-type")
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def error_document(error: InferstreamError) -> dict[str, Any]:
    """The body of a V2 error; `detail` repeats the message in the form that FastAPI's clients read."""
    document: dict[str, Any] = {"error": error.message}
    if isinstance(error, Refused):
        document |= error.fields
    if error.code is Code.INVALID:
        document["detail"] = [{"type": error.code.value, "msg": error.message}]
    return document


def error_response(error: InferstreamError, profile: Profile) -> tuple[int, RawHeaders, bytes]:
    """The status, headers and uncompressed JSON body of an error."""
    headers = [JSON, *http_headers(error)]
    if error.code in (Code.TOO_LARGE, Code.UNSUPPORTED_ENCODING):
        headers.append((b"connection", b"close"))  # the server does not read the rest of the body
    return status_of(error, profile).http, headers, orjson.dumps(error_document(error))


def wrap(error: BaseException) -> InferstreamError:
    """The error if it is of our own tree; any other is logged, and its client gets no details."""
    if isinstance(error, InferstreamError):
        return error
    if "surrogates not allowed" in str(error):
        return unwritable(error, None)  # a text of a model with half a character
    logger.error("a REST call failed", exc_info=error)
    return InferstreamError("The server failed; its log says why.")
