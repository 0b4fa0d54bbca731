"""The head of a call (gRPC over HTTP/2: Requests), and the header blocks of responses."""

from ....errors import InvalidRequest
from ...http2.hpack import encode
from ...http2.request import Request
from ..messages import ACCEPTED, IDENTITY, accepts
from ..metadata import CallMetadata, Metadata, header_pairs, metadata_of, percent_encoded, timeout_of
from ..statuses import StatusCode

CONTENT_TYPE = b"application/grpc"

_OPENING = ((b":status", b"200"), (b"content-type", CONTENT_TYPE))
_ACCEPTED = (b"grpc-accept-encoding", ACCEPTED)

OPENED = encode((*_OPENING, _ACCEPTED))
"""The head of a response without metadata."""

ENDED = encode(((b"grpc-status", b"0"),))
"""The trailers of a success without metadata."""

NOT_GRPC = encode(((b":status", b"415"), (b"content-length", b"0")))
"""The response to a request that is no call."""

NOT_POST = encode(((b":status", b"405"), (b"allow", b"POST"), (b"content-length", b"0")))


class CallHead:
    """What the headers of a request say about the call. Calls whose header blocks are the same share it."""

    __slots__ = ("_accepted", "_fields", "_metadata", "encoding", "path", "refusal", "timeout")

    def __init__(self, request: Request) -> None:
        fields = dict(request.fields)
        self._fields = request.fields
        self._metadata: CallMetadata | None = None
        self._accepted = fields.get(b"grpc-accept-encoding", b"")
        self.path = request.path.decode("latin-1")
        self.encoding = fields.get(b"grpc-encoding", IDENTITY)
        timeout = fields.get(b"grpc-timeout")
        self.timeout = None if timeout is None else _seconds(timeout)
        """Seconds that the call may take; negative for a timeout that is malformed."""
        self.refusal: bytes | None = None
        """The response to a request that is no call."""
        if request.method != b"POST":
            self.refusal = NOT_POST
        elif not is_grpc(fields.get(b"content-type", b"")):
            self.refusal = NOT_GRPC

    @property
    def metadata(self) -> CallMetadata:
        """The client's metadata. Raises InvalidRequest."""
        if self._metadata is None:
            self._metadata = CallMetadata(metadata_of(self._fields))
        return self._metadata

    def accepts(self, encoding: bytes) -> bool:
        """Whether the client reads messages in this encoding."""
        return accepts(self._accepted, encoding)


def _seconds(value: bytes) -> float:
    try:
        return timeout_of(value)
    except InvalidRequest:
        return -1.0


def is_grpc(content_type: bytes) -> bool:
    """Whether it is `application/grpc`, perhaps with a subtype or parameters."""
    return content_type.startswith(CONTENT_TYPE) and content_type[len(CONTENT_TYPE) :][:1] in (
        b"",
        b"+",
        b";",
    )


def opened(metadata: Metadata, encoding: bytes | None) -> bytes:
    """The head of a response with metadata, or with compressed messages."""
    if not metadata and encoding is None:
        return OPENED
    compression = () if encoding is None else ((b"grpc-encoding", encoding),)
    return encode((*_OPENING, *compression, _ACCEPTED, *header_pairs(metadata)))


def ended(code: StatusCode, message: str, metadata: Metadata) -> bytes:
    """The trailers of a response."""
    if not code and not metadata:
        return ENDED
    return encode(_status(code, message, metadata))


def failed_at_once(code: StatusCode, message: str, metadata: Metadata) -> bytes:
    """The head of a response that has nothing else (gRPC over HTTP/2: Trailers-Only)."""
    return encode((*_OPENING, _ACCEPTED, *_status(code, message, metadata)))


def _status(code: StatusCode, message: str, metadata: Metadata) -> list[tuple[bytes, bytes]]:
    fields = [(b"grpc-status", b"%d" % code)]
    if message:
        fields.append((b"grpc-message", percent_encoded(message)))
    return fields + header_pairs(metadata)
