"""In development a client of the same machine sees the exception of a model, and nobody else does."""

import asyncio
import json
from collections.abc import Iterator

import grpc
import httpx
import pytest
from websockets.sync.client import connect

from inferstream.protos.converters import ModelInferRequestConverter
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from inferstream.types import InferenceRequest
from tests.serving import Running, tensor, write_model

CODE = """
from inferstream import MLModel, StepModel


class Failing(MLModel):
    def predict(self, payload):
        raise ValueError("boom-predict")

    async def predict_stream(self, payloads):
        yield "a"
        raise ValueError("boom-stream")


class Stepping(StepModel):
    def admit(self, request):
        return 1

    def step(self, states):
        raise ValueError("boom-step")


class Loading(MLModel):
    def load(self):
        raise ValueError("boom-load")

    def predict(self, payload):
        return "x"


class Number(MLModel):
    def predict(self, payload):
        return 7


def items(xs: list[int]) -> list[int]:
    raise ValueError(f"boom-batch {xs}")
"""
REQUEST = {"inputs": [tensor("x", "BYTES", ["a"])]}
HEADERS = [{"Forwarded": "for=10.0.0.1"}, {"X-Forwarded-For": "10.0.0.1"}, {"x-forwarded-proto": "https"}]


def folder(root, **settings) -> object:
    for name in ("Failing", "Stepping", "Loading", "Number"):
        write_model(root, name.lower(), f"code_of_user.{name}", CODE)
    batch = {"max_batch_size": 2, "max_batch_time": 20}
    write_model(root, "batch", "code_of_user.items", CODE, **batch)
    (root / "settings.json").write_text(json.dumps(settings))
    return root


@pytest.fixture(scope="module")
def shown(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("shown") / "models"
    running = Running(folder(root, parallel_workers=workers), "--reload")
    yield running
    assert running.stop() == 0, running.text()


def rest(running: Running, model: str, action: str, headers: dict[str, str]) -> str:
    response = running.infer(model, REQUEST, action, headers=headers)
    assert response.status_code == (200 if action.endswith("stream") and model == "failing" else 500)
    return response.text


def infer(running: Running, headers: dict[str, str]) -> str:
    return rest(running, "failing", "infer", headers)


def infer_stream(running: Running, headers: dict[str, str]) -> str:
    return rest(running, "failing", "infer_stream", headers)


def generate_stream(running: Running, headers: dict[str, str]) -> str:
    return rest(running, "failing", "generate_stream", headers)


def steps(running: Running, headers: dict[str, str]) -> str:
    return rest(running, "stepping", "infer_stream", headers)


def completions(running: Running, headers: dict[str, str]) -> str:
    body = {"model": "failing", "prompt": "x"}
    return httpx.post(f"{running.url}/v1/completions", json=body, headers=headers, timeout=20).text


def websocket(running: Running, headers: dict[str, str]) -> str:
    url = f"ws://127.0.0.1:{running.http_port}/v2/models/failing/stream"
    with connect(url, additional_headers=headers) as socket:
        socket.send(json.dumps(REQUEST))
        socket.recv(timeout=20)
        return str(socket.recv(timeout=20))


def unary(running: Running, headers: dict[str, str]) -> str:
    message = ModelInferRequestConverter.from_types(InferenceRequest.model_validate(REQUEST), "failing")
    metadata = [(name.lower(), value) for name, value in headers.items()]
    with grpc.insecure_channel(running.grpc) as channel, pytest.raises(grpc.RpcError) as failure:
        GRPCInferenceServiceStub(channel).ModelInfer(message, timeout=20, metadata=metadata)
    assert failure.value.code() is grpc.StatusCode.INTERNAL
    return str(failure.value.details())


def bidirectional(running: Running, headers: dict[str, str]) -> str:
    message = ModelInferRequestConverter.from_types(InferenceRequest.model_validate(REQUEST), "failing")
    metadata = [(name.lower(), value) for name, value in headers.items()]
    metadata.append(("x-stream-dialect", "mlserver"))
    with grpc.insecure_channel(running.grpc) as channel, pytest.raises(grpc.RpcError) as failure:
        list(
            GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([message]), timeout=20, metadata=metadata)
        )
    return str(failure.value.details())


DOORS = {
    infer: "predict",
    infer_stream: "stream",
    generate_stream: "stream",
    steps: "step",
    completions: "stream",
    websocket: "stream",
    unary: "predict",
    bidirectional: "stream",
}


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_local_client_sees_exception_and_user_frames(shown: Running, door) -> None:
    logged = shown.text().count(f"  ValueError: boom-{DOORS[door]}\n")
    said = door(shown, {})
    assert f"ValueError: boom-{DOORS[door]}" in said
    assert "code_of_user.py" in said
    assert "inferstream/" not in said
    assert shown.text().count(f"  ValueError: boom-{DOORS[door]}\n") == logged + 1, "a failure is logged once"


@pytest.mark.parametrize("headers", HEADERS, ids=lambda headers: next(iter(headers)))
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_proxied_client_does_not_see_exception(shown: Running, door, headers: dict[str, str]) -> None:
    said = door(shown, headers)
    assert "boom" not in said
    assert "code_of_user" not in said


def test_wrong_result_type_is_shown_with_code_location(shown: Running) -> None:
    assert 'code_of_user.py\\", line 31, in predict' in rest(shown, "number", "infer", {})


def test_resumable_stream_hides_exception(shown: Running) -> None:
    said = infer_stream(shown, {"Prefer": "resumable"})
    assert "event: error" in said
    assert "boom" not in said


def test_failed_load_is_logged_once(shown: Running) -> None:
    assert shown.text().count("  ValueError: boom-load\n") == 1
    assert shown.text().count("ERROR - Model loading did not load: ValueError: boom-load\n") == 1


async def test_failed_batch_has_one_traceback_per_request(shown: Running) -> None:
    body = {"inputs": [tensor("xs", "INT64", [3])]}
    async with httpx.AsyncClient(base_url=shown.url, timeout=20) as client:
        await asyncio.gather(*(client.post("/v2/models/batch/infer", json=body) for _ in range(6)))
    assert shown.text().count("  ValueError: boom-batch [3]\n") == 6
    assert "  ValueError: boom-batch [3, 3]\n" not in shown.text()


@pytest.mark.parametrize("settings", [{}, {"show_errors": "never", "debug": True}], ids=["served", "never"])
def test_exceptions_are_hidden_outside_development(start, tmp_path, settings: dict) -> None:
    running = start(folder(tmp_path / "models", **settings))
    for door in DOORS:
        said = door(running, {})
        assert "boom" not in said
        assert "code_of_user" not in said


def test_every_front_end_shows_errors(start, tmp_path) -> None:
    running = start(folder(tmp_path / "models", frontends=2, parallel_workers=1, debug=True))
    with httpx.Client(timeout=20) as client:
        for _ in range(8):  # connections go to either
            said = client.post(
                f"{running.url}/v2/models/failing/infer", json=REQUEST, headers={"Connection": "close"}
            ).text
            assert "ValueError: boom-predict" in said
