"""Channels of gRPC, and the certificates of servers that are not verified."""

import asyncio
import ssl
from pathlib import Path

import pytest

from inferstream.clients.channel import _certificate_of, open_channel
from inferstream.clients.transport import Target
from inferstream.errors import ConnectionFailed
from tests.certificates import Authority


async def test_a_plain_channel_asks_for_no_certificate() -> None:
    channel = await open_channel(Target("grpc://127.0.0.1:1"))
    await channel.close(None)


@pytest.mark.parametrize("url", ["grpcs://127.0.0.1:1", "https://127.0.0.1:1", "GRPCS://127.0.0.1:1"])
async def test_a_certificate_that_cannot_be_read_is_no_connection(url: str) -> None:
    with pytest.raises(ConnectionFailed, match="no connection") as caught:
        await open_channel(Target(url, verify=False))
    assert caught.value.unreachable


async def test_the_certificate_of_a_server_is_read_with_a_name_in_it(tmp_path: Path) -> None:
    issued = Authority(tmp_path).issue("server", hosts=("there.example",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued["ssl_certfile"], issued["ssl_keyfile"])

    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(close, "127.0.0.1", 0, ssl=context) as server:
        host, port = server.sockets[0].getsockname()
        pem, name = await _certificate_of(f"{host}:{port}", 10)
    assert ssl.PEM_cert_to_DER_cert(pem.decode()) == ssl.PEM_cert_to_DER_cert(
        Path(issued["ssl_certfile"]).read_text()
    )
    assert name == "there.example"
