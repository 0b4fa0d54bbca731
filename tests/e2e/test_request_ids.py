"""X-Request-Id in and out, over every transport, in logs and in model code, with and without workers."""

import json
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest, ServerLiveRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests import grpc_web
from tests.engines import EVERY_ENGINE, options_of
from tests.serving import Running, eventually, text, write_model

CODE = """
import asyncio
import logging
from inferstream import MLModel, custom_handler, request_context
from inferstream.types import InferenceResponse, ResponseOutput

logger = logging.getLogger("inferstream.mine")

def word(payload):
    said = payload.inputs[0].data[0]
    return said.decode() if isinstance(said, bytes) else said

class Model(MLModel):
    def said(self, what):
        output = ResponseOutput(name="id", shape=[1], datatype="BYTES", data=[what])
        return InferenceResponse(model_name=self.name, outputs=[output])

    async def predict(self, payload):
        logger.info("asked %s", word(payload))
        if word(payload) == "fail":
            raise ValueError("secret")
        return self.said(str(request_context().request_id))

    async def predict_stream(self, payloads):
        async for payload in payloads:
            logger.info("streamed %s", word(payload))
            if word(payload) == "fail":
                raise ValueError("secret")
            for _ in range(2):
                yield self.said(str(request_context().request_id))

    @custom_handler("/own", rest_method="GET")
    async def own(self) -> str:
        return "answered"
"""

CODE += """
class Batched(MLModel):
    async def predict(self, payload):
        await asyncio.sleep(0.2)
        said = [str(request_context().request_id)] * len(payload.inputs[0].data)
        output = ResponseOutput(name="id", shape=[len(said)], datatype="BYTES", data=said)
        return InferenceResponse(model_name=self.name, outputs=[output])
"""

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NAME = "x-request-id"


@pytest.fixture(scope="module")
def identified(workers: int, grpc_engine: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("identified") / "models"
    write_model(folder, "m", "model.Model", CODE)
    write_model(folder, "batched", "model.Batched", CODE, max_batch_size=4, max_batch_time=0.1)
    settings = {"use_structured_logging": True, "parallel_workers": workers}
    (folder / "settings.json").write_text(json.dumps(settings))
    running = Running(folder, **options_of(grpc_engine))
    yield running
    assert running.stop() == 0, running.text()


def record(running: Running, message: str) -> dict:
    """The log's record of this message, once it is there."""

    def found() -> list[dict]:
        lines = [json.loads(line) for line in running.text().splitlines() if line.startswith("{")]
        return [line for line in lines if line["message"] == message]

    return eventually(found)[0]


def said(response: dict) -> str:
    return response["outputs"][0]["data"][0]


REQUESTS = {
    "infer": ("POST", "/v2/models/m/infer", 200),
    "stream": ("POST", "/v2/models/m/infer_stream", 200),
    "refused": ("POST", "/v2/models/nobody/infer", 404),
    "metadata": ("GET", "/v2/models/m", 200),
    "health": ("GET", "/v2/health/ready", 200),
    "missing": ("GET", "/nowhere", 404),
    "wrong method": ("PUT", "/v2/models/m/infer", 405),
    "a model's own": ("GET", "/own", 200),
    "metrics": ("GET", "/metrics", 200),
}


@pytest.mark.parametrize("case", REQUESTS)
def test_response_echoes_request_id(identified: Running, case: str) -> None:
    method, path, status = REQUESTS[case]
    body = text() if method != "GET" else None
    plain = httpx.request(method, identified.url + path, json=body, timeout=20)
    assert (plain.status_code, NAME in plain.headers) == (status, False)
    headers = {"X-Request-Id": f"shop-7/{case}".replace(" ", "-").replace("'", "")}
    named = httpx.request(method, identified.url + path, json=body, headers=headers, timeout=20)
    assert named.status_code == status
    assert named.headers.get_list(NAME) == [headers["X-Request-Id"]]


@pytest.mark.parametrize(
    "sent",
    [b"x" * 129, b"\xff", b"tab\there", b"", b"\xc3\xbc", b"7] [trace_id=1"],
    ids=["long", "latin", "tab", "empty", "utf-8", "forged"],
)
def test_malformed_id_is_replaced(identified: Running, sent: bytes) -> None:
    for path in ("/v2/models/m/infer", "/v2/models/nobody"):
        found = httpx.post(identified.url + path, json=text(), headers=[(b"X-Request-Id", sent)], timeout=20)
        assert UUID.fullmatch(found.headers[NAME]), found.headers


def test_model_code_and_logs_have_request_id(identified: Running) -> None:
    header = {"X-Request-Id": "id-rest"}
    assert said(identified.infer("m", text("rest"), headers=header).json()) == "id-rest"
    assert record(identified, "asked rest")["request_id"] == "id-rest"
    streamed = identified.infer("m", text("sse"), "infer_stream", headers={"X-Request-Id": "id-sse"})
    assert streamed.text.count("id-sse") == 2
    assert record(identified, "streamed sse")["request_id"] == "id-sse"
    assert said(identified.infer("m", text("without")).json()) == "None"
    assert "request_id" not in record(identified, "asked without")


def test_requests_on_one_connection_have_own_ids(identified: Running) -> None:
    with httpx.Client(base_url=identified.url, timeout=20) as client:
        for number in ("1", "2", None, None):
            headers = {} if number is None else {"X-Request-Id": number}
            found = client.post("/v2/models/m/infer", json=text(), headers=headers)
            assert (found.headers.get(NAME), said(found.json())) == (number, str(number))


def test_batch_has_no_request_id(identified: Running) -> None:
    """A call that runs alone keeps its id."""

    def ask(number: int) -> str:
        name = f"batch-{number}"
        found = identified.infer("batched", text(), headers={"X-Request-Id": name})
        assert found.headers[NAME] == name
        known = said(found.json())
        assert known in (name, "None")
        return known

    with ThreadPoolExecutor(6) as pool:
        assert "None" in set(pool.map(ask, range(6)))


def test_failures_have_the_id(identified: Running) -> None:
    for action, status in (("infer", 500), ("infer_stream", 500)):
        found = identified.infer("m", text("fail"), action, headers={"X-Request-Id": "failed"})
        assert (found.status_code, found.headers[NAME]) == (status, "failed")


def test_websocket_handshake_and_calls_have_id(identified: Running) -> None:
    url = identified.url.replace("http", "ws") + "/v2/models/{}/stream"
    with connect(url.format("m"), additional_headers={"X-Request-Id": "id-ws"}) as line:
        assert line.response.headers.get_all(NAME) == ["id-ws"]
        line.send(json.dumps(text("ws")))
        assert said(json.loads(line.recv(10))) == "id-ws"
    assert record(identified, "streamed ws")["request_id"] == "id-ws"
    with connect(url.format("m")) as line:
        assert NAME not in line.response.headers
        line.send(json.dumps(text("without ws")))
        assert said(json.loads(line.recv(10))) == "None"
    with pytest.raises(InvalidStatus) as refused:
        connect(url.format("nobody"), additional_headers={"X-Request-Id": "id-ws"})
    assert refused.value.response.headers[NAME] == "id-ws"


def message(model: str, value: bytes = b"hi") -> ModelInferRequest:
    made = ModelInferRequest(model_name=model)
    made.inputs.add(name="x", datatype="BYTES", shape=[1]).contents.bytes_contents.append(value)
    return made


@EVERY_ENGINE
def test_rpcs_have_the_id_as_initial_metadata(identified: Running) -> None:
    with grpc.insecure_channel(identified.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        options = {"metadata": ((NAME, "id-grpc"),), "timeout": 10}
        response, call = stub.ModelInfer.with_call(message("m", b"grpc"), **options)
        assert dict(call.initial_metadata())[NAME] == "id-grpc"
        assert response.outputs[0].contents.bytes_contents[0] == b"id-grpc"
        assert record(identified, "asked grpc")["request_id"] == "id-grpc"
        _, call = stub.ServerLive.with_call(ServerLiveRequest(), **options)
        assert dict(call.initial_metadata())[NAME] == "id-grpc"
        _, call = stub.ModelInfer.with_call(message("m"), timeout=10)
        assert NAME not in dict(call.initial_metadata())
        with pytest.raises(grpc.RpcError) as refused:
            stub.ModelInfer(message("nobody"), **options)
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        assert dict(refused.value.initial_metadata())[NAME] == "id-grpc"
        _, call = stub.ModelInfer.with_call(message("m"), metadata=((NAME, "x" * 200),), timeout=10)
        assert UUID.fullmatch(dict(call.initial_metadata())[NAME])
        for dialect in ("mlserver", "triton"):
            metadata = ((NAME, "id-stream"), ("x-stream-dialect", dialect))
            stream = stub.ModelStreamInfer(
                iter([message("m", b"grpc stream")]), metadata=metadata, timeout=10
            )
            assert len([*stream]) >= 2
            assert dict(stream.initial_metadata())[NAME] == "id-stream"
        assert record(identified, "streamed grpc stream")["request_id"] == "id-stream"


def test_grpc_web_call_has_id_once(identified: Running) -> None:
    body = message("m", b"web").SerializeToString()
    found = grpc_web.call(identified.url, "ModelInfer", body, **{NAME: "id-web"})
    assert found.status == 0
    assert found.headers.get_list(NAME) == ["id-web"]
    assert record(identified, "asked web")["request_id"] == "id-web"


def test_every_response_has_id_if_enabled(tmp_path: Path, start) -> None:
    folder = tmp_path / "models"
    write_model(folder, "m", "model.Model", CODE)
    (folder / "settings.json").write_text('{"request_ids": "always"}')
    running = start(folder)
    found = running.infer("m", text("always"))
    assert UUID.fullmatch(found.headers[NAME])
    assert said(found.json()) == found.headers[NAME]
    eventually(lambda: f"asked always [request_id={found.headers[NAME]}]" in running.text())
    assert UUID.fullmatch(httpx.get(f"{running.url}/v2").headers[NAME])
    assert running.infer("m", text(), headers={"X-Request-Id": "own"}).headers[NAME] == "own"
    with grpc.insecure_channel(running.grpc) as channel:
        _, call = GRPCInferenceServiceStub(channel).ModelInfer.with_call(message("m"), timeout=10)
        assert UUID.fullmatch(dict(call.initial_metadata())[NAME])
    with connect(f"ws://127.0.0.1:{running.http_port}/v2/models/m/stream") as line:
        assert UUID.fullmatch(line.response.headers[NAME])


def test_asgi_request_has_id(identified: Running) -> None:
    """A chunked body does not take the short way."""

    def pieces() -> Iterator[bytes]:
        yield json.dumps(text("chunked")).encode()

    headers = {"X-Request-Id": "id-asgi", "content-type": "application/json"}
    found = httpx.post(f"{identified.url}/v2/models/m/infer", content=pieces(), headers=headers, timeout=20)
    assert (found.headers.get_list(NAME), said(found.json())) == (["id-asgi"], "id-asgi")


def test_header_split_over_packets_is_one_id(identified: Running) -> None:
    body = json.dumps(text()).encode()
    with socket.create_connection(("127.0.0.1", identified.http_port), 10) as sock:
        sock.sendall(
            b"POST /v2/models/m/infer HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nX-Request-Id: spl"
        )
        sock.sendall(b"it\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        received = b"".join(iter(lambda: sock.recv(65536), b""))
    assert b"\r\nx-request-id: split\r\n" in received
