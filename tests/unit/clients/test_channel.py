"""Channels of gRPC, and the certificates of servers that are not verified."""

import asyncio
import ssl
from pathlib import Path

import pytest

from inferstream.clients.channel import _fetch_certificate, open_channel
from inferstream.clients.transport import Target
from inferstream.errors import ConnectionFailed
from tests.certificates import Authority


async def test_insecure_channel_fetches_no_certificate() -> None:
    channel = await open_channel(Target("grpc://127.0.0.1:1"))
    await channel.close(None)


@pytest.mark.parametrize("url", ["grpcs://127.0.0.1:1", "https://127.0.0.1:1", "GRPCS://127.0.0.1:1"])
async def test_unreadable_certificate_is_a_connection_error(url: str) -> None:
    with pytest.raises(
        ConnectionFailed, match=r"^no server at 127\.0\.0\.1:1: the connection was refused; hint: start it"
    ) as caught:
        await open_channel(Target(url, verify=False))
    assert caught.value.unreachable


async def test_server_certificate_is_read_with_its_host_name(tmp_path: Path) -> None:
    issued = Authority(tmp_path).issue("server", hosts=("there.example",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued["ssl_certfile"], issued["ssl_keyfile"])

    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(close, "127.0.0.1", 0, ssl=context) as server:
        host, port = server.sockets[0].getsockname()
        pem, name = await _fetch_certificate(f"{host}:{port}", 10)
    assert ssl.PEM_cert_to_DER_cert(pem.decode()) == ssl.PEM_cert_to_DER_cert(
        Path(issued["ssl_certfile"]).read_text()
    )
    assert name == "there.example"
