"""HTTP/2 error codes (RFC 9113, section 7) and protocol violations of clients."""

from enum import IntEnum


class ErrorCode(IntEnum):
    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    SETTINGS_TIMEOUT = 0x4
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    CONNECT_ERROR = 0xA
    ENHANCE_YOUR_CALM = 0xB
    INADEQUATE_SECURITY = 0xC
    HTTP_1_1_REQUIRED = 0xD


class Http2Fault(Exception):
    """A protocol violation, with the error code that is sent to the client."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(f"{code.name}: {reason}")
        self.code = code
        self.reason = reason


class ConnectionFault(Http2Fault):
    """A violation that closes the connection. The code and the reason are sent in a GOAWAY frame."""


class StreamFault(Http2Fault):
    """A violation that closes one stream. The code is sent in a RST_STREAM frame."""
