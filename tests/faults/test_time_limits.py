"""The default time limit of single calls, and what it does not limit."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import httpx
import pytest

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, text, write_model

START = """
from inferstream.settings import Settings
Settings.model_fields["request_timeout"].default = {limit}
Settings.model_rebuild(force=True)
from inferstream.cli.main import app
app()
"""
LIMIT = 1.0
LONG = {"seconds": 2 * LIMIT}
"""Twice the limit, for calls that it does not end."""


@pytest.fixture(scope="module")
def limited(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server whose default is a second."""
    root = tmp_path_factory.mktemp("limits")
    models = root / "models"
    for name, settings in {
        "waits": {"max_concurrency": 1},
        "null": {"request_timeout": None},
        "zero": {"request_timeout": 0},
        "cached": {"cache_enabled": True},
        "batched": {"max_batch_size": 2, "max_batch_time": 0.01, "max_concurrency": 1},
    }.items():
        write_model(models, name, "faulty_models.Slow", name=name, **settings)
    write_model(models, "streaming", "faulty_models.Streaming", name="streaming")
    write_model(models, "echo", "faulty_models.Echo", name="echo")
    (models / "settings.json").write_text('{"cache_enabled": true}')
    script = root / "start.py"
    script.write_text(START.format(limit=LIMIT))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.serving.SERVER", [sys.executable, str(script)])
        running = Running(models, INFERSTREAM_PARALLEL_WORKERS=str(workers))
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture(scope="module")
def ended(limited: Running) -> dict[str, httpx.Response]:
    """Responses to calls that begin together."""
    hangs, long = text(parameters={"seconds": 600}), text(parameters=LONG)
    with ThreadPoolExecutor() as pool:
        asked = {name: pool.submit(limited.infer, name, hangs) for name in ("waits", "cached", "batched")}
        asked |= {name: pool.submit(limited.infer, name, long) for name in ("null", "zero")}
        items = text(parameters={"items": 3, "before": 2 * LIMIT})
        asked["streaming"] = pool.submit(limited.infer, "streaming", items, "infer_stream")
        return {name: future.result() for name, future in asked.items()}


@pytest.mark.parametrize("model", ["waits", "cached", "batched"])
def test_timed_out_call_frees_its_slot(limited: Running, ended, model: str) -> None:
    assert (ended[model].status_code, ended[model].json()["error"]) == (
        504,
        "The deadline of the request has passed.",
    )
    again = text(parameters={"seconds": 0})
    assert limited.infer(model, again).status_code == 200
    limited.probe()


@pytest.mark.parametrize("model", ["null", "zero"])
def test_null_and_zero_mean_no_limit(ended, model: str) -> None:
    assert ended[model].status_code == 200


def test_stream_is_not_limited(ended) -> None:
    assert ended["streaming"].text.count("item") == 3


def test_grpc_time_limit_is_a_deadline(limited: Running) -> None:
    message = ModelInferRequest(model_name="waits")
    message.parameters["seconds"].int64_param = 600
    tensor = message.inputs.add(name="text", datatype="BYTES", shape=[1])
    tensor.contents.bytes_contents.append(b"x")
    with grpc.insecure_channel(limited.grpc) as channel, pytest.raises(grpc.RpcError) as failed:
        GRPCInferenceServiceStub(channel).ModelInfer(message, timeout=60)
    assert failed.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert failed.value.details() == "The deadline of the request has passed."
    assert limited.infer("waits", text(parameters={"seconds": 0})).status_code == 200
