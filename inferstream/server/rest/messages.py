"""HTTP requests and responses as bytes: heads, bodies, compression and errors."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any

import orjson

from ...concurrency.scope import ClientLeft as ClientLeft
from ...dataplane.caller import SplitHeaders
from ...errors import Code, InferstreamError, InvalidRequest, Refused, UnsupportedEncoding
from ...protos.unwritable_outputs import log_unwritable_output
from ..compression import DEFLATE, GZIP, build_size_error, deflate, inflate
from ..headers import select_sendable as select_sendable
from ..status import Profile, http_headers, status_of

logger = logging.getLogger("inferstream.rest")

RawHeaders = list[tuple[bytes, bytes]]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

PREFIX = "inferstream.prefix"
"""The key of the mount prefix in an ASGI scope."""

JSON = (b"content-type", b"application/json")

LATE = b'{"error":"The request was not received in time."}'
"""The body of a response with status 408."""

BODY_SETTING = "max_body_bytes"
"""The setting that limits most bodies and WebSocket messages."""

PARSE_IN_THREAD = 256 * 1024
"""Bodies and messages larger than this are decompressed, checked and parsed off the event loop."""

COUNT_ON_ARRIVAL = 4 * 2**20
"""JSON bodies larger than this are checked chunk by chunk while they arrive."""

INFLATE_IN_THREAD = 4 * 1024
"""Compressed bodies larger than this are decompressed off the event loop. They can expand 1,000-fold."""

COMPRESS_IN_THREAD = 64 * 1024
"""Bodies larger than this are compressed off the event loop."""

UPLOADS = (b"multipart/", b"image/", b"audio/", b"video/", b"application/octet-stream", b"text/plain")
"""Prefixes of the media types of forms and files. Clients also send JSON as the last two."""

DIGITS = 20
"""Maximum number of digits in a length. Python does not parse more than 4,300 digits."""


class Head:
    """The request headers that the server reads. If a header is repeated, the last value counts."""

    __slots__ = (
        "accept_encoding",
        "connection",
        "content_length",
        "encoding",
        "expect",
        "find",
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
        self.find = find = dict(headers).get
        """Returns the value of a header by its lower-case name, or the default."""
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
        """Whether the headers set a timeout, a priority or a pace."""
        self.split: SplitHeaders | None = None
        """Headers for models, and headers with credentials. None before the first request with this head."""
        self.trusted = False
        """Whether origin, length and media type have been checked."""

    def header_length(self, size: int) -> int | None:
        """Return the size of the JSON before binary tensors, or None without the header.

        Raises InvalidRequest.
        """
        if self.json_length is None:
            return None
        length = self.announced_json()
        if length is None or length > size:
            raise InvalidRequest(
                f"Inference-Header-Content-Length must be a number of bytes within the body's {size}."
            )
        return length

    def announced_json(self) -> int | None:
        """Return the size of the JSON according to the header, or None if it is missing or malformed."""
        text = self.json_length
        return int(text) if text is not None and text.isdigit() and len(text) <= DIGITS else None


async def read_body(head: Head, receive: Receive, limit: int, setting: str = BODY_SETTING) -> bytes:
    """Receive and decompress a body of at most `limit` bytes. Errors name the `setting`, if any.

    Raises PayloadTooLarge, UnsupportedEncoding, InvalidRequest or ClientLeft.
    """
    check_body_headers(head, limit, setting=setting)
    return decompress_if_encoded(head, await receive_all(receive, limit), limit, setting)


def check_body_headers(head: Head, limit: int, in_parts: bool = False, setting: str = BODY_SETTING) -> None:
    """Check the headers before the body is received. `in_parts` allows multipart bodies.

    Raises PayloadTooLarge or UnsupportedEncoding.
    """
    if head.media_type.startswith(b"multipart/") and not in_parts:
        raise UnsupportedEncoding("multipart bodies are not accepted")
    if head.content_length is not None and int(head.content_length) > limit:
        raise build_size_error("body", limit, setting)


def decompress_if_encoded(head: Head, body: bytes, limit: int, setting: str = BODY_SETTING) -> bytes:
    """Decompress a body. Raises PayloadTooLarge, UnsupportedEncoding or InvalidRequest."""
    if len(body) > limit:
        raise build_size_error("body", limit, setting)
    if head.encoding and head.encoding != b"identity":
        return decompress(body, head.encoding, limit, setting)
    return body


async def receive_all(receive: Receive, limit: int, counts: Sequence[Callable[[bytes], None]] = ()) -> bytes:
    """Receive a body, or only its beginning if it is larger than `limit` bytes.

    Calls each of `counts` with every chunk. Raises ClientLeft or the errors of `counts`.
    """
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
    return b"".join(pieces)  # joined once: copying 45 MB takes 40 ms


def decompress(body: bytes, encoding: bytes, limit: int, setting: str) -> bytes:
    """Decompress one layer of gzip or deflate (zlib) to at most `limit` bytes.

    Raises UnsupportedEncoding, PayloadTooLarge or InvalidRequest.
    """
    encoding = encoding.removeprefix(b"x-")  # x-gzip is gzip (RFC 9110 section 8.4.1.3)
    if encoding not in (GZIP, DEFLATE):
        raise UnsupportedEncoding(f"Content-Encoding {encoding.decode('latin-1')!r} is not gzip or deflate.")
    return inflate(body, encoding, limit, "body", setting)


def choose_encoding(accept: bytes) -> bytes | None:
    """Choose the encoding for an Accept-Encoding header: gzip, deflate, or None for identity."""
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
    """Compress a body with gzip or deflate (zlib). Large bodies are compressed in a thread."""
    if len(body) > COMPRESS_IN_THREAD:
        return await asyncio.to_thread(deflate, body, encoding)
    return deflate(body, encoding)


async def respond(
    send: Send, status: int, body: bytes, headers: RawHeaders, *, typed_last: bool = False
) -> None:
    """Send a complete response. With `typed_last`, the content type is the last header."""
    headers.append((b"content-length", b"%d" % len(body)))
    if typed_last:
        headers.sort(key=lambda pair: pair[0] == b"content-type")
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def error_document(error: InferstreamError) -> dict[str, Any]:
    """Return the JSON document of a V2 error. If the request is invalid, `detail` has the FastAPI format."""
    document: dict[str, Any] = {"error": error.message}
    if isinstance(error, Refused):
        document |= error.fields
    if error.code is Code.INVALID:
        document["detail"] = [{"type": error.code.value, "msg": error.message}]
    return document


def error_response(error: InferstreamError, profile: Profile) -> tuple[int, RawHeaders, bytes]:
    """Return the status, headers and uncompressed JSON body of an error."""
    headers = [JSON, *http_headers(error)]
    if error.code in (Code.TOO_LARGE, Code.UNSUPPORTED_ENCODING):
        headers.append((b"connection", b"close"))  # the server does not read the rest of the body
    return status_of(error, profile).http, headers, orjson.dumps(error_document(error))


def wrap(error: BaseException) -> InferstreamError:
    """Return an InferstreamError unchanged. Any other error is logged and replaced by one without details."""
    if isinstance(error, InferstreamError):
        return error
    if "surrogates not allowed" in str(error):
        return log_unwritable_output(error, None)  # a model returned an unpaired surrogate
    logger.error("REST call failed", exc_info=error)
    return InferstreamError("The server failed; its log says why.")
