"""SETTINGS frames (RFC 9113, section 6.5) of the server and the client."""

from struct import Struct

from .errors import ConnectionFault, ErrorCode
from .frames import ACK, MAX_FRAME_SIZE_LIMIT, MAX_WINDOW_SIZE, SETTINGS, SMALLEST_MAX_FRAME, frame

HEADER_TABLE_SIZE = 0x1
ENABLE_PUSH = 0x2
MAX_CONCURRENT_STREAMS = 0x3
INITIAL_WINDOW_SIZE = 0x4
MAX_FRAME_SIZE = 0x5
MAX_HEADER_LIST_SIZE = 0x6

DEFAULT_WINDOW = 65_535
"""The initial window size in bytes, before any SETTINGS or WINDOW_UPDATE."""

_SETTING = Struct(">HL")

ACKNOWLEDGED = frame(SETTINGS, ACK, 0, b"")


def settings_frame(values: dict[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*pair) for pair in values.items()))


def read_settings(payload: bytes) -> dict[int, int]:
    """Parse and validate a client's settings, by identifier. Raises ConnectionFault."""
    if len(payload) % _SETTING.size:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS is not a list of settings")
    chosen = dict(_SETTING.iter_unpack(payload))
    if chosen.get(ENABLE_PUSH, 0) > 1:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "ENABLE_PUSH is neither 0 nor 1")
    if chosen.get(INITIAL_WINDOW_SIZE, 0) > MAX_WINDOW_SIZE:
        raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE is above 2^31-1")
    largest = chosen.get(MAX_FRAME_SIZE, SMALLEST_MAX_FRAME)
    if not SMALLEST_MAX_FRAME <= largest <= MAX_FRAME_SIZE_LIMIT:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "MAX_FRAME_SIZE is out of range")
    return chosen
