"""The head of a call ("Requests" in gRPC over HTTP/2), and the header blocks of responses."""

from ....errors import InvalidRequest
from ...http2.hpack import encode
from ...http2.request import Request
from ..messages import ACCEPTED, IDENTITY, accepts
from ..metadata import (
    CallMetadata,
    Metadata,
    encode_metadata,
    extract_metadata,
    parse_timeout,
    percent_encode,
)
from ..statuses import StatusCode

CONTENT_TYPE = b"application/grpc"

_OPENING = ((b":status", b"200"), (b"content-type", CONTENT_TYPE))
_ACCEPTED = (b"grpc-accept-encoding", ACCEPTED)

OPENED = encode((*_OPENING, _ACCEPTED))
"""The head of a response without metadata."""

ENDED = encode(((b"grpc-status", b"0"),))
"""The trailers of a success without metadata."""

NOT_GRPC = encode(((b":status", b"415"), (b"content-length", b"0")))
"""The response to a request that is not a gRPC call."""

NOT_POST = encode(((b":status", b"405"), (b"allow", b"POST"), (b"content-length", b"0")))


class CallHead:
    """The head of a call. Calls with the same header block share it."""

    __slots__ = ("_accepted", "_fields", "_metadata", "encoding", "path", "refusal", "timeout")

    def __init__(self, request: Request) -> None:
        fields = dict(request.fields)
        self._fields = request.fields
        self._metadata: CallMetadata | None = None
        self._accepted = fields.get(b"grpc-accept-encoding", b"")
        self.path = request.path.decode("latin-1")
        self.encoding = fields.get(b"grpc-encoding", IDENTITY)
        timeout = fields.get(b"grpc-timeout")
        self.timeout = None if timeout is None else _parse_seconds(timeout)
        """Timeout of the call in seconds. None if the call has none, and negative if it is malformed."""
        self.refusal: bytes | None = None
        """The response to a request that is not a gRPC call, else None."""
        if request.method != b"POST":
            self.refusal = NOT_POST
        elif not is_grpc(fields.get(b"content-type", b"")):
            self.refusal = NOT_GRPC

    @property
    def metadata(self) -> CallMetadata:
        """The metadata of the request. Raises InvalidRequest."""
        if self._metadata is None:
            self._metadata = CallMetadata(extract_metadata(self._fields))
        return self._metadata

    def accepts(self, encoding: bytes) -> bool:
        """Whether the client accepts messages in this encoding."""
        return accepts(self._accepted, encoding)


def _parse_seconds(value: bytes) -> float:
    try:
        return parse_timeout(value)
    except InvalidRequest:
        return -1.0


def is_grpc(content_type: bytes) -> bool:
    """Whether a content type is `application/grpc`, with or without a subtype or parameters."""
    return content_type.startswith(CONTENT_TYPE) and content_type[len(CONTENT_TYPE) :][:1] in (
        b"",
        b"+",
        b";",
    )


def encode_head(metadata: Metadata, encoding: bytes | None) -> bytes:
    """Encode the head of a response with metadata or compressed messages."""
    if not metadata and encoding is None:
        return OPENED
    compression = () if encoding is None else ((b"grpc-encoding", encoding),)
    return encode((*_OPENING, *compression, _ACCEPTED, *encode_metadata(metadata)))


def encode_trailers(code: StatusCode, message: str, metadata: Metadata) -> bytes:
    """Encode the trailers of a response."""
    if not code and not metadata:
        return ENDED
    return encode(_status_fields(code, message, metadata))


def encode_trailers_only(code: StatusCode, message: str, metadata: Metadata) -> bytes:
    """Encode a response that consists only of a head ("Trailers-Only" in gRPC over HTTP/2)."""
    return encode((*_OPENING, _ACCEPTED, *_status_fields(code, message, metadata)))


def _status_fields(code: StatusCode, message: str, metadata: Metadata) -> list[tuple[bytes, bytes]]:
    fields = [(b"grpc-status", b"%d" % code)]
    if message:
        fields.append((b"grpc-message", percent_encode(message)))
    return fields + encode_metadata(metadata)
