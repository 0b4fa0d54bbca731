"""SETTINGS (RFC 9113 section 6.5): those of the server, and those of a client."""

from struct import Struct

from .errors import ConnectionFault, ErrorCode
from .frames import ACK, LARGEST_MAX_FRAME, LARGEST_WINDOW, SETTINGS, SMALLEST_MAX_FRAME, frame

HEADER_TABLE_SIZE = 0x1
ENABLE_PUSH = 0x2
MAX_CONCURRENT_STREAMS = 0x3
INITIAL_WINDOW_SIZE = 0x4
MAX_FRAME_SIZE = 0x5
MAX_HEADER_LIST_SIZE = 0x6

DEFAULT_WINDOW = 65_535
"""Bytes of a window before any SETTINGS or WINDOW_UPDATE."""

_SETTING = Struct(">HL")

ACKNOWLEDGED = frame(SETTINGS, ACK, 0, b"")


def settings_frame(values: dict[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*pair) for pair in values.items()))


def read_settings(payload: bytes) -> dict[int, int]:
    """A client's settings by identifier, checked. Raises ConnectionFault."""
    if len(payload) % _SETTING.size:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS is not a list of settings")
    chosen = dict(_SETTING.iter_unpack(payload))
    if chosen.get(ENABLE_PUSH, 0) > 1:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "ENABLE_PUSH is neither 0 nor 1")
    if chosen.get(INITIAL_WINDOW_SIZE, 0) > LARGEST_WINDOW:
        raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE is above 2^31-1")
    largest = chosen.get(MAX_FRAME_SIZE, SMALLEST_MAX_FRAME)
    if not SMALLEST_MAX_FRAME <= largest <= LARGEST_MAX_FRAME:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "MAX_FRAME_SIZE is out of range")
    return chosen
