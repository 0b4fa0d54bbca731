"""Every API by which a JSON text reaches a model, each as a function that sends one and returns the refusal."""

import base64
import gzip
import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import httpx
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest, ModelStreamInferResponse
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests import grpc_web
from tests.serving import Running
from tests.typed import Reflected

APP = """
from collections.abc import AsyncIterator
from typing import Any
from inferstream import App

app = App()


@app.model
def typed(d: list[dict[str, int]]) -> int:
    return len(d)


@app.model
async def anything(d: Any) -> int:
    return len(d)


@app.model(max_batch_size=4)
def batched(d: list[dict[str, Any]]) -> list[int]:
    return [len(each) for each in d]


@app.model(parallel_workers=1)
def worker(d: Any) -> int:
    return len(d)


@app.model
def texts(x: list[str]) -> int:
    return len(x)


@app.model
def raws(x: list[bytes]) -> int:
    return len(x)


@app.model
async def later(d: AsyncIterator[dict[str, Any]]) -> AsyncIterator[int]:
    async for each in d:
        yield len(each)


@app.model
def numbers(x: list[int]) -> int:
    return len(x)
"""
CHAT = """
from inferstream import MLModel


class Chat(MLModel):
    async def predict_stream(self, payloads):
        async for payload in payloads:
            yield "a"


class Plain(MLModel):
    async def predict(self, payload):
        raise ValueError("it has been called")
"""
TEXT_INPUTS = [
    {"name": name, "datatype": "BYTES", "shape": [1], "parameters": {"optional": True}}
    for name in ("prompt", "messages", "tools", "response_format")
]
SETTINGS = {
    "chat": {"inputs": TEXT_INPUTS, "outputs": [{"name": "text", "datatype": "BYTES", "shape": [1]}]},
    "plain": {},
}
TIMEOUT = 60


def started(folder: Path, text: bool = False, **settings: object) -> Running:
    """A server of functions, or of models of `text`."""
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps(settings))
    if not text:
        (folder / "app.py").write_text(APP)
        return Running(folder, target=str(folder / "app.py"))
    for name, more in SETTINGS.items():
        (folder / name).mkdir()
        (folder / name / "chat_models.py").write_text(CHAT)
        implementation = f"chat_models.{name.title()}"
        (folder / name / "model-settings.json").write_text(
            json.dumps({"name": name, "implementation": implementation, **more})
        )
    return Running(folder)


def raw(*texts: str | bytes) -> bytes:
    parts = [each.encode() if isinstance(each, str) else each for each in texts]
    return b"".join(len(part).to_bytes(4, "little") + part for part in parts)


def refusal(response: httpx.Response) -> str:
    return "" if response.status_code == 200 and "error" not in response.json() else response.text


def tensor(name: str, *texts: str, **parameters: object) -> dict:
    found: dict = {"name": name, "datatype": "BYTES", "shape": [len(texts)], "data": texts}
    return {**found, "parameters": parameters} if parameters else found


def binary(name: str, content: bytes, count: int = 1) -> bytes:
    sizes = {"binary_data_size": len(content)}
    return json.dumps(
        {"inputs": [{"name": name, "datatype": "BYTES", "shape": [count], "parameters": sizes}]}
    ).encode()


def post(server: Running, path: str, body: bytes | Iterator[bytes], **headers: str) -> str:
    return refusal(httpx.post(f"{server.url}{path}", content=body, headers=headers, timeout=TIMEOUT))


def post_binary(server: Running, model: str, name: str, content: bytes, count: int = 1) -> str:
    head = binary(name, content, count)
    length = {"Inference-Header-Content-Length": str(len(head))}
    return post(server, f"/v2/models/{model}/infer", head + content, **length)


def of_v2(model: str) -> Callable[[Running, str], str]:
    def send(server: Running, text: str) -> str:
        body = json.dumps({"inputs": [tensor("d", text)]}).encode()
        return post(server, f"/v2/models/{model}/infer", body)

    return send


def binary_json(server: Running, text: str) -> str:
    return post_binary(server, "anything", "d", raw(text))


def compressed(server: Running, text: str) -> str:
    body = gzip.compress(json.dumps({"inputs": [tensor("d", text)]}).encode())
    return post(server, "/v2/models/anything/infer", body, **{"Content-Encoding": "gzip"})


def chunked(server: Running, text: str) -> str:
    body = json.dumps({"inputs": [tensor("d", text)]}).encode()
    return post(
        server, "/v2/models/anything/infer", (body[at : at + 1000] for at in range(0, len(body), 1000))
    )


def flat(server: Running, text: str) -> str:
    return post(server, "/v2/models/anything/generate", f'{{"d":{text}}}'.encode())


def instances(server: Running, text: str) -> str:
    return post(server, "/v1/models/anything:predict", f'{{"instances":[{{"d":{text}}}]}}'.encode())


def event(server: Running, text: str) -> str:
    data = f'{{"instances":[{{"d":{text}}}]}}'.encode()
    about = {"specversion": "1.0", "id": "1", "source": "a", "type": "b"}
    body = json.dumps({**about, "data_base64": base64.b64encode(data).decode()}).encode()
    return post(
        server, "/v1/models/anything:predict", body, **{"Content-Type": "application/cloudevents+json"}
    )


def rpc(server: Running, text: str) -> str:
    call = f'{{"jsonrpc":"2.0","id":1,"method":"anything","params":{{"d":{text}}}}}'
    return post(server, "/rpc", call.encode())


def mcp(server: Running, text: str) -> str:
    call = (
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":'
        f'{{"name":"anything","arguments":{{"d":{text}}}}}}}'
    )
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    response = httpx.post(f"{server.url}/mcp", content=call.encode(), headers=headers, timeout=TIMEOUT)
    failed = "error" in response.text or '"isError":true' in response.text.replace(" ", "")
    return response.text if failed or response.status_code != 200 else ""


def socket(server: Running, *messages: str | bytes, model: str = "anything") -> str:
    url = f"{server.url}/v2/models/{model}/stream".replace("http", "ws")
    with connect(url, max_size=None, proxy=None) as opened:
        for message in messages:
            opened.send(message)
        try:
            answer = json.loads(opened.recv(timeout=TIMEOUT))
        except Exception as error:  # of a message beyond max_body_bytes
            return str(error)
    return answer.get("error", "")


def socket_text(server: Running, text: str) -> str:
    return socket(server, json.dumps({"id": "a", "inputs": [tensor("d", text)]}))


def socket_binary(server: Running, text: str) -> str:
    head = binary("d", raw(text))
    return socket(server, len(head).to_bytes(4, "little") + head + raw(text))


def socket_later(server: Running, text: str) -> str:
    """In a later part of a request."""
    parts = [
        {"id": "a", "part": part, "inputs": [tensor("d", each)]}
        for part, each in (("first", "{}"), ("last", text))
    ]
    url = f"{server.url}/v2/models/later/stream".replace("http", "ws")
    with connect(url, max_size=None, proxy=None) as opened:
        for part in parts:
            opened.send(json.dumps(part))
        found = []
        for _ in parts:
            try:
                answer = json.loads(opened.recv(timeout=TIMEOUT))
            except Exception as error:
                return str(error)
            if "error" in answer:
                found.append(answer["error"])
                break
    return "".join(found)


def message(model: str, name: str, *texts: bytes, raws: bool) -> ModelInferRequest:
    asked = ModelInferRequest(model_name=model)
    fields = asked.inputs.add(name=name, datatype="BYTES", shape=[len(texts)])
    if raws:
        asked.raw_input_contents.append(raw(*texts))
    else:
        fields.contents.bytes_contents.extend(texts)
    return asked


def called(server: Running, asked: ModelInferRequest) -> str:
    with grpc.insecure_channel(server.grpc, [("grpc.max_send_message_length", -1)]) as channel:
        try:
            GRPCInferenceServiceStub(channel).ModelInfer(asked, timeout=TIMEOUT)
        except grpc.RpcError as error:
            return error.details()
    return ""


def grpc_raw(server: Running, text: str) -> str:
    return called(server, message("anything", "d", text.encode(), raws=True))


def grpc_contents(server: Running, text: str) -> str:
    return called(server, message("anything", "d", text.encode(), raws=False))


def grpc_stream(dialect: str) -> Callable[[Running, str], str]:
    def send(server: Running, text: str) -> str:
        asked = message("anything", "d", text.encode(), raws=True)
        with grpc.insecure_channel(server.grpc, [("grpc.max_send_message_length", -1)]) as channel:
            stream = channel.stream_stream(
                "/inference.GRPCInferenceService/ModelStreamInfer",
                ModelInferRequest.SerializeToString,
                ModelStreamInferResponse.FromString if dialect == "triton" else bytes,
            )
            try:
                answers = [*stream(iter([asked]), timeout=TIMEOUT, metadata=(("x-stream-dialect", dialect),))]
            except grpc.RpcError as error:
                return error.details()
        return "".join(each.error_message for each in answers) if dialect == "triton" else ""

    return send


def web(server: Running, text: str) -> str:
    asked = message("anything", "d", text.encode(), raws=True).SerializeToString()
    ended = grpc_web.call(server.url, "ModelInfer", asked)
    return ended.message if ended.status else ""


def typed_rpc(server: Running, text: str) -> str:
    with grpc.insecure_channel(server.grpc, [("grpc.max_send_message_length", -1)]) as channel:
        try:
            Reflected(channel).service().call("PredictAnything", d=text, timeout=TIMEOUT)
        except grpc.RpcError as error:
            return error.details()
    return ""


def guided(server: Running, text: str) -> str:
    asked = {"model": "chat", "messages": [{"role": "user", "content": "a"}], "guided_json": text}
    return post(server, "/v1/chat/completions", json.dumps(asked).encode())


def structured(server: Running, text: str) -> str:
    asked = {"model": "chat", "prompt": "a", "structured_outputs": {"json": text}}
    return post(server, "/v1/completions", json.dumps(asked).encode())


def grammar(server: Running, text: str) -> str:
    asked = {"inputs": "a", "parameters": {"grammar": {"type": "json", "value": text}}}
    return post(server, "/generate", json.dumps({**asked, "model": "chat"}).encode())


def special(name: str) -> Callable[[Running, str], str]:
    """An input of a text model that is JSON."""

    def send(server: Running, text: str) -> str:
        inputs = [tensor("prompt", "a"), tensor(name, text)]
        return post(server, "/v2/models/chat/infer", json.dumps({"inputs": inputs}).encode())

    return send


def arguments(server: Running, text: str) -> str:
    """The arguments of an earlier call of a tool, which pass as text within the messages."""
    calls = [{"id": "a", "type": "function", "function": {"name": "f", "arguments": text}}]
    history = [{"role": "user", "content": "a"}, {"role": "assistant", "content": None, "tool_calls": calls}]
    body = {"model": "chat", "messages": history}
    return post(server, "/v1/chat/completions", json.dumps(body).encode())


FUNCTIONS: dict[str, Callable[[Running, str], str]] = {
    "V2": of_v2("anything"),
    "V2 of a schema": of_v2("typed"),
    "V2 in a batch": of_v2("batched"),
    "V2 in a worker": of_v2("worker"),
    "V2 in binary form": binary_json,
    "V2 compressed": compressed,
    "V2 in chunks": chunked,
    "flat": flat,
    "instances": instances,
    "CloudEvents": event,
    "JSON-RPC": rpc,
    "MCP": mcp,
    "WebSocket": socket_text,
    "WebSocket in binary form": socket_binary,
    "WebSocket in a later part": socket_later,
    "gRPC": grpc_raw,
    "gRPC contents": grpc_contents,
    "gRPC stream of MLServer": grpc_stream("mlserver"),
    "gRPC stream of Triton": grpc_stream("triton"),
    "gRPC-Web": web,
    "typed gRPC": typed_rpc,
}
TEXTS: dict[str, Callable[[Running, str], str]] = {
    "guided_json": guided,
    "structured_outputs": structured,
    "grammar": grammar,
    "messages": special("messages"),
    "tools": special("tools"),
    "response_format": special("response_format"),
}


@contextmanager
def region(server: Running, name: str, content: bytes, count: int) -> Iterator[dict]:
    """An input whose content is in shared memory, which the server forgets afterwards."""
    file = Path("/dev/shm") / f"tests-{uuid.uuid4().hex}"
    file.write_bytes(content)
    url = f"{server.url}/v2/systemsharedmemory/region/{file.name}"
    try:
        place = {"key": f"/{file.name}", "byte_size": len(content)}
        httpx.post(f"{url}/register", json=place, timeout=TIMEOUT).raise_for_status()
        where = {"shared_memory_region": file.name, "shared_memory_byte_size": len(content)}
        yield {"name": name, "datatype": "BYTES", "shape": [count], "parameters": where}
        httpx.post(f"{url}/unregister", timeout=TIMEOUT).raise_for_status()
    finally:
        file.unlink()


def in_region(server: Running, text: str) -> str:
    with region(server, "d", raw(text), 1) as tensor:
        return post(server, "/v2/models/anything/infer", json.dumps({"inputs": [tensor]}).encode())


def in_region_by_grpc(server: Running, text: str) -> str:
    with region(server, "d", raw(text), 1) as tensor:
        return called(server, placed("anything", tensor))


def in_region_by_web(server: Running, text: str) -> str:
    with region(server, "d", raw(text), 1) as tensor:
        ended = grpc_web.call(server.url, "ModelInfer", placed("anything", tensor).SerializeToString())
        return ended.message if ended.status else ""


def placed(model: str, tensor: dict) -> ModelInferRequest:
    asked = ModelInferRequest(model_name=model)
    fields = asked.inputs.add(name=tensor["name"], datatype="BYTES", shape=tensor["shape"])
    for name, value in tensor["parameters"].items():
        setattr(fields.parameters[name], "string_param" if type(value) is str else "int64_param", value)
    return asked


FUNCTIONS |= {
    "shared memory": in_region,
    "shared memory by gRPC": in_region_by_grpc,
    "shared memory by gRPC-Web": in_region_by_web,
}


def elements(server: Running, way: str, count: int, size: int = 0) -> str:
    """Send `count` elements of BYTES of `size` bytes each."""
    if way.startswith("region"):
        with region(server, "x", raw(b"a" * size) * count, count) as tensor:
            if way == "region by gRPC":
                return called(server, placed("texts", tensor))
            body = json.dumps({"inputs": [tensor]}).encode()
            return post(server, "/v2/models/texts/infer", body)
    if way == "binary":
        return post_binary(server, "texts", "x", raw(b"a" * size) * count, count)
    asked = message("texts", "x", *[b"a" * size] * count, raws=way == "raw")
    return called(server, asked)
