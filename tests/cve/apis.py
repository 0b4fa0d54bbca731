"""Every API that calls a model with a text, each as a function that says whether the model was called."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import grpc
import httpx
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest, ModelMetadataRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.grpc_web import BINARY, framed, headers_of
from tests.serving import Running

TEXT = {"datatype": "BYTES", "shape": [1]}

REFUSED = (
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNAVAILABLE,
)

Headers = dict[str, str]

Ask = Callable[[Running, str, Headers], tuple[bool, str]]
"""Calls a model with headers. Returns whether it was served, and the response."""


def over(path: str, **body: object) -> Ask:
    """Asks a model at a path, whose name is `{}` there or the field `model` of the body."""

    def ask(server: Running, model: str, headers: Headers) -> tuple[bool, str]:
        own = body if "{}" in path else {"model": model, **body}
        answer = httpx.post(server.url + path.format(model), json=own, headers=headers, timeout=60)
        assert answer.status_code in (200, 401, 429, 503), answer.text
        return answer.status_code == 200, answer.text

    return ask


PROMPT = {"inputs": [{"name": "prompt", **TEXT, "data": ["x"]}]}
MESSAGES = [{"role": "user", "content": "x"}]


def over_grpc(server: Running, model: str, headers: Headers, priority: int = 0) -> tuple[bool, str]:
    message = ModelInferRequest(model_name=model)
    if priority:
        message.parameters["priority"].int64_param = priority
    message.inputs.add(name="prompt", **TEXT).contents.bytes_contents.append(b"x")
    return over_rpc(server, "ModelInfer", message, headers)


def over_grpc_metadata(server: Running, model: str, headers: Headers) -> tuple[bool, str]:
    return over_rpc(server, "ModelMetadata", ModelMetadataRequest(name=model), headers)


def over_rpc(server: Running, method: str, message: Any, headers: Headers) -> tuple[bool, str]:
    with grpc.insecure_channel(server.grpc) as channel:
        try:
            answer = getattr(GRPCInferenceServiceStub(channel), method)(
                message, metadata=tuple(headers.items()), timeout=60
            )
        except grpc.RpcError as error:
            if error.code() not in REFUSED:
                raise
            return False, str(error.details())
    return True, str(answer)


def over_grpc_web(server: Running, model: str, headers: Headers, priority: int = 0) -> tuple[bool, str]:
    message = ModelInferRequest(model_name=model)
    if priority:
        message.parameters["priority"].int64_param = priority
    message.inputs.add(name="prompt", **TEXT).contents.bytes_contents.append(b"x")
    answer = httpx.post(
        f"{server.url}/inference.GRPCInferenceService/ModelInfer",
        content=framed(message.SerializeToString()),
        headers=headers_of(BINARY, **headers),
        timeout=60,
    )
    text = answer.content.decode("latin-1") + str(answer.headers)
    return "grpc-status:0" in text, text


def over_websocket(server: Running, model: str, headers: Headers, **parameters: object) -> tuple[bool, str]:
    url = f"{server.url.replace('http', 'ws', 1)}/v2/models/{model}/stream"
    with connect(url, additional_headers=headers) as socket:
        socket.send(json.dumps({"id": "a", **PROMPT, "parameters": parameters}))
        answer = str(socket.recv(60))
    return "outputs" in answer, answer


def over_metadata(server: Running, model: str, headers: Headers) -> tuple[bool, str]:
    answer = httpx.get(f"{server.url}/v2/models/{model}", headers=headers, timeout=60)
    assert answer.status_code in (200, 503), answer.text
    return answer.status_code == 200, answer.text


def json_rpc(path: str, method: str, **params: object) -> Ask:
    def ask(server: Running, model: str, headers: Headers) -> tuple[bool, str]:
        own = {name: model if value == "{}" else value for name, value in params.items()}
        call = {"jsonrpc": "2.0", "id": 1, "method": method.format(model), "params": own}
        answer = httpx.post(server.url + path, json=call, headers=headers, timeout=60)
        text = answer.text
        return "error" not in text.lower(), text

    return ask


FACES: dict[str, Ask] = {
    "rest": over("/v2/models/{}/infer", **PROMPT),
    "generate": over("/v2/models/{}/generate", prompt="x"),
    "sse": over("/v2/models/{}/generate_stream", prompt="x"),
    "openai": over("/v1/chat/completions", messages=MESSAGES),
    "openai stream": over("/v1/chat/completions", messages=MESSAGES, stream=True),
    "completions": over("/v1/completions", prompt="x"),
    "responses": over("/v1/responses", input="x"),
    "anthropic": over("/v1/messages", messages=MESSAGES, max_tokens=5),
    "ollama": over("/api/generate", prompt="x", stream=False),
    "tgi": over("/generate", inputs="x"),
    "v1": over("/v1/models/{}:predict", instances=["x"]),
    "json-rpc": json_rpc("/rpc", "{}", prompt="x"),
    "mcp": json_rpc("/mcp", "tools/call", name="{}", arguments={"prompt": "x"}),
    "grpc": over_grpc,
    "grpc-web": over_grpc_web,
    "websocket": over_websocket,
}

"""One of each API; each caller of a key can send it."""

URGENT: dict[str, Ask] = {
    "rest": over("/v2/models/{}/infer", **PROMPT, parameters={"priority": 1}),
    "openai": over("/v1/chat/completions", messages=MESSAGES, priority=1),
    "completions": over("/v1/completions", prompt="x", priority=1),
    "grpc": partial(over_grpc, priority=1),
    "grpc-web": partial(over_grpc_web, priority=1),
    "websocket": partial(over_websocket, priority=1),
}
"""Requests whose bodies state the highest priority."""

LOADS: dict[str, Ask] = {
    "ollama load": over("/api/generate"),
    "ollama pin": over("/api/chat", messages=[], keep_alive=-1),
    "metadata": over_metadata,
    "metadata by grpc": over_grpc_metadata,
}
"""Requests that load a model and call none."""
