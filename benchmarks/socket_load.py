"""Load over WebSocket: callers with one stream at a time, each on its own connection."""

import asyncio
import time

import orjson

from .load import PROMPT, TOKENS

UPGRADE = (
    b"GET /v2/models/tokens/stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
LAST = b'"triton_final_response":true'


def masked_text(payload: bytes) -> bytes:
    """A frame of a client with a mask of zeros, which leaves its payload as it is (RFC 6455, section 5.2)."""
    assert 126 <= len(payload) < 2**16
    return b"\x81\xfe" + len(payload).to_bytes(2) + bytes(4) + payload


REQUEST = masked_text(
    orjson.dumps(
        {"id": "1", "inputs": [PROMPT], "parameters": {"benchmark": "a payload of 126 bytes at least"}}
    )
)


async def socket_tokens(port: int, callers: int, seconds: float) -> int:
    """How many tokens arrived in messages."""

    async def caller() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
        writer.write(UPGRADE)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        streams = 0
        while time.perf_counter() < until:
            writer.write(REQUEST)
            messages = await reader.readuntil(LAST)
            assert messages.count(b'" token') == TOKENS, messages[:200]
            streams += 1
        writer.close()
        return streams * TOKENS

    until = time.perf_counter() + seconds
    return sum(await asyncio.gather(*(caller() for _ in range(callers))))
