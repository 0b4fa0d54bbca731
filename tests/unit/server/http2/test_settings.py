"""A client's SETTINGS."""

from struct import pack

import pytest

from inferstream.server.http2.errors import ConnectionFault, ErrorCode
from inferstream.server.http2.settings import (
    ENABLE_PUSH,
    INITIAL_WINDOW_SIZE,
    MAX_FRAME_SIZE,
    read_settings,
    settings_frame,
)


def test_settings_round_trip() -> None:
    values = {INITIAL_WINDOW_SIZE: 100, MAX_FRAME_SIZE: 2**14, 0x99: 5}
    assert read_settings(settings_frame(values)[9:]) == values


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (b"12345", ErrorCode.FRAME_SIZE_ERROR),
        (pack(">HL", ENABLE_PUSH, 2), ErrorCode.PROTOCOL_ERROR),
        (pack(">HL", INITIAL_WINDOW_SIZE, 2**31), ErrorCode.FLOW_CONTROL_ERROR),
        (pack(">HL", MAX_FRAME_SIZE, 2**14 - 1), ErrorCode.PROTOCOL_ERROR),
        (pack(">HL", MAX_FRAME_SIZE, 2**24), ErrorCode.PROTOCOL_ERROR),
    ],
)
def test_invalid_setting_closes_the_connection(payload: bytes, code: ErrorCode) -> None:
    with pytest.raises(ConnectionFault) as fault:
        read_settings(payload)
    assert fault.value.code is code
