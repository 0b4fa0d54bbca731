"""Every way into the server: a text sent by each, in the place where a client of that way puts its text."""

import base64
import json
from collections.abc import Callable, Iterator
from typing import NamedTuple

import grpc
import httpx
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from tests.grpc_web import BINARY, SERVICE, framed, headers_of
from tests.serving import Running


class Answer(NamedTuple):
    """What came back. `failed`: the server says that the fault is its own."""

    way: str
    body: bytes
    failed: bool


def bytes_tensor(value: str | bytes, **parameters: object) -> dict:
    """A tensor of one element in JSON; bytes that are no text in base64."""
    text = value if isinstance(value, str) else base64.b64encode(value).decode()
    more = {"content_type": "base64"} if isinstance(value, bytes) else {}
    return {
        "name": "text",
        "datatype": "BYTES",
        "shape": [1],
        "data": [text],
        "parameters": more | parameters,
    }


def documents(text: str) -> Iterator[tuple[str, str, dict]]:
    """Paths of JSON, each with a request that holds the text."""
    infer = {"inputs": [bytes_tensor(text)], "parameters": {"more": text}}
    for model in ("echo", "cached", "decoding"):
        yield "POST", f"/v2/models/{model}/infer", infer
    yield "POST", "/v2/models/both/infer_stream", infer
    yield "POST", "/v2/models/words/generate", {"prompt": text}
    yield "POST", "/v2/models/words/generate_stream", {"prompt": text}
    for prefix in ("/v1", "/openai/v1"):
        chat = {"model": "saying", "messages": [{"role": "user", "content": text}], "user": text}
        yield "POST", f"{prefix}/chat/completions", chat
        yield "POST", f"{prefix}/chat/completions", {**chat, "stream": True}
        yield "POST", f"{prefix}/completions", {"model": "saying", "prompt": text}
        yield "POST", f"{prefix}/responses", {"model": "saying", "input": text}
        yield "POST", f"{prefix}/embeddings", {"model": "vectors", "input": text}
    said = [{"role": "user", "content": text}]
    message = {"model": "saying", "max_tokens": 9, "messages": said, "system": text}
    yield "POST", "/v1/messages", message
    yield "POST", "/v1/messages", {**message, "stream": True}
    yield "POST", "/v1/messages/count_tokens", message
    yield "POST", "/api/chat", {"model": "saying", "messages": said}
    yield "POST", "/api/generate", {"model": "saying", "prompt": text, "system": text}
    yield "POST", "/api/embed", {"model": "vectors", "input": text}
    yield "POST", "/api/show", {"model": text}
    yield "POST", "/rerank", {"model": text, "query": text, "documents": [text]}
    yield "POST", "/score", {"model": "vectors", "text_1": text, "text_2": text}
    for path in ("/generate", "/generate_stream", "/"):
        yield "POST", path, {"inputs": text}
    yield "POST", "/generate", {"prompt": text, "stream": True}
    yield "POST", "/rpc", {"jsonrpc": "2.0", "id": 1, "method": "words", "params": {"prompt": text}}
    yield "POST", "/v2/repository/index", {"ready": False, "repository_name": text}
    yield "POST", "/v2/repository/models/echo/load", {"parameters": {"config": text}}
    yield "POST", "/own/post", {"text": text}
    yield "PUT", "/own/put", {"text": text}


def reads(text: str) -> Iterator[tuple[str, str]]:
    """Paths without a body, some with the text in them."""
    quoted = httpx.QueryParams({"prompt": text})
    yield "GET", f"/v2/models/words/generate_stream?{quoted}"
    for path in (
        "/v2",
        "/v2/models",
        "/v2/models/echo",
        "/v2/models/echo/stats",
        "/v1/models",
        "/info",
        "/own/get",
    ):
        yield "GET", path
    for path in ("/docs", "/v2/docs/dataplane.json", "/proto", "/metrics", "/inferstream.js"):
        yield "GET", path
    yield "DELETE", "/v2/requests/" + quoted["prompt"].encode().hex()


def headers(text: str) -> dict[str, str]:
    """The text in headers that mean something to the server, where it can be in one."""
    plain = "".join(each for each in text if " " < each < "\x7f")[:200]
    return {"X-Request-Id": plain, "traceparent": plain, "X-Other": plain, "baggage": f"a={plain}"}


def over_http(server: Running, text: str) -> Iterator[Answer]:
    with httpx.Client(base_url=server.url, timeout=30, headers=headers(text)) as client:
        for method, path, document in documents(text):
            found = client.request(method, path, json=document)
            yield Answer(path, found.content, found.status_code in (500, 502, 503))
        for method, path in reads(text):
            found = client.request(method, path)
            yield Answer(path, found.content, found.status_code in (500, 502, 503))
    if server.metrics_port:
        found = httpx.get(f"http://127.0.0.1:{server.metrics_port}/metrics", headers=headers(text))
        yield Answer("metrics", found.content, found.status_code >= 500)


def messages(text: str) -> Iterator[bytes]:
    """Requests of gRPC with the text as typed and as raw contents, and as a parameter."""
    data = text.encode()
    for model in ("echo", "cached", "decoding"):
        typed = ModelInferRequest(model_name=model)
        typed.inputs.add(name="text", datatype="BYTES", shape=[1]).contents.bytes_contents.append(data)
        typed.parameters["more"].string_param = text
        yield typed.SerializeToString()
        raw = ModelInferRequest(model_name=model)
        raw.inputs.add(name="text", datatype="BYTES", shape=[1])
        raw.raw_input_contents.append(len(data).to_bytes(4, "little") + data)
        yield raw.SerializeToString()


def over_grpc(server: Running, text: str) -> Iterator[Answer]:
    metadata = [("x-other", headers(text)["X-Other"])]
    with grpc.insecure_channel(server.grpc) as channel:
        unary = channel.unary_unary(f"/{SERVICE}/ModelInfer")
        streamed = channel.stream_stream(f"/{SERVICE}/ModelStreamInfer")
        for message in messages(text):
            yield _rpc("ModelInfer", lambda sent=message: unary(sent, timeout=30, metadata=metadata))
        each = next(iter(messages(text)))
        yield _rpc(
            "ModelStreamInfer", lambda: b"".join(streamed(iter([each]), timeout=30, metadata=metadata))
        )


def _rpc(way: str, call: Callable[[], bytes]) -> Answer:
    try:
        return Answer(way, call(), False)
    except grpc.RpcError as error:
        failed = error.code() in (
            grpc.StatusCode.INTERNAL,
            grpc.StatusCode.UNKNOWN,
            grpc.StatusCode.UNAVAILABLE,
        )
        return Answer(way, str(error.details()).encode(), failed)


def over_grpc_web(server: Running, text: str) -> Iterator[Answer]:
    for message in messages(text):
        found = httpx.post(
            f"{server.url}/{SERVICE}/ModelInfer",
            content=framed(message),
            headers=headers_of(BINARY),
            timeout=30,
        )
        yield Answer(
            "gRPC-Web", found.content, b"grpc-status:13" in found.content or found.status_code >= 500
        )


def over_websocket(server: Running, text: str) -> Iterator[Answer]:
    url = f"ws://127.0.0.1:{server.http_port}/v2/models"
    with connect(f"{url}/both/stream", open_timeout=20) as opened:
        for sent in (json.dumps({"id": "a", "inputs": [bytes_tensor(text)]}), text, text.encode()):
            try:
                opened.send(sent)
                found = opened.recv(timeout=20)
            except ConnectionClosed as closed:
                yield Answer("WebSocket", closed.reason.encode(), closed.code == 1011)
                return
            body = found if isinstance(found, bytes) else found.encode()
            yield Answer("WebSocket", body, b'"internal"' in body)


WAYS = (over_http, over_grpc, over_grpc_web, over_websocket)


def everywhere(server: Running, text: str) -> list[Answer]:
    """Send the text by every way. Fails where the server says that the fault is its own."""
    answers = [answer for way in WAYS for answer in way(server, text)]
    failed = [(answer.way, answer.body[:300]) for answer in answers if answer.failed]
    assert not failed, failed
    return answers
