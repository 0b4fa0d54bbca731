"""gRPC-Web: RPCs in bodies of HTTP/1.1, binary and in base64."""

import base64
from typing import Any

from tests.grpc_web import BINARY, SERVICE, TEXT, body_of, framed

from ..http import Http, one, post
from .grpc import infer, text

NEW = {"x-grpc-web": "1"}


def call(name: str, method: str, *messages: bytes, media: str = BINARY, **headers: str) -> Http:
    return sent(name, body_of(*messages, media=media), method, media=media, **headers)


def sent(name: str, body: bytes, method: str = "ModelInfer", *, media: str = BINARY, **headers: str) -> Http:
    named: dict[str, Any] = {name.replace("_", "-"): value for name, value in headers.items()}
    return post(name, f"/{SERVICE}/{method}", body, headers={"Content-Type": media, **NEW, **named})


def stream(name: str, *messages: bytes, **options: str) -> Http:
    return call(f"stream {name}", "ModelStreamInfer", *messages, **options, x_stream_dialect="mlserver")


CASES = [
    call("binary", "ModelInfer", infer("echo")),
    call("raw", "ModelInfer", infer("echo", raw=True)),
    call("text", "ModelInfer", infer("echo"), media=TEXT),
    call("text for binary", "ModelInfer", infer("echo"), accept=TEXT),
    call("ready", "ServerReady", b""),
    stream("binary", text("stream")),
    stream("text", text("stream"), media=TEXT),
    stream("fails", text("stream", fail_at=1)),
    stream("fails at once", text("stream", fail_at=0)),
    call("nobody", "ModelInfer", infer("nobody")),
    call("ümlaut", "ModelInfer", infer("ü")),
    call("unknown RPC", "ModelExplain", b""),
    call("bytes that are none", "ModelInfer", b"\xff"),
    call("timeout that is none", "ModelInfer", infer("echo"), grpc_timeout="soon"),
    call("encoding that is unknown", "ModelInfer", infer("echo"), grpc_encoding="br"),
    sent("no message", b""),
    sent("flags that nobody defines", framed(b"", flag=2)),
    sent("base64 that is none", b"!!!!", media=TEXT),
    sent(
        "padded chunks",
        b"".join(base64.b64encode(byte.to_bytes()) for byte in framed(infer("echo"))),
        media=TEXT,
    ),
    sent("content type that is none", b"", media="application/grpc"),
    one("GET", "GET", f"/{SERVICE}/ModelInfer"),
    one("OPTIONS", "OPTIONS", f"/{SERVICE}/ModelInfer"),
]
