"""Stopping while everything stands in the way: streams that go on, unloads that block, workers that hang."""

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from inferstream.server.stopping import AFTERWARDS, SPARE
from tests.serving import Running, eventually, text, write_model

GRACE = 0.5
IN_TIME = GRACE + AFTERWARDS + SPARE + 5
"""Seconds within which a process has ended, on a machine that is slow; the models would keep it for minutes."""

STUCK = """
import asyncio
import time
from inferstream import MLModel
class Stuck(MLModel):
    async def predict(self, payload):
        await asyncio.sleep(0)  # so this model runs on the event loop, and so does its `unload`

    {unload}
        with open(__import__("os").environ["TEST_LOG"], "a") as file:
            file.write("unloading\\n")
        time.sleep(600)
"""


@pytest.fixture(params=[1, 2], ids=["one front end", "two front ends"])
def served(request: pytest.FixtureRequest, serve, tmp_path: Path):
    """Serve an endless stream beside a model whose `unload` is written so."""

    def start(unload: str) -> Running:
        folder = tmp_path / "models"
        write_model(folder, "streaming", "faulty_models.Streaming")
        write_model(folder, "stuck", "stuck.Stuck", STUCK.replace("{unload}", unload))
        return serve(
            folder, "--frontends", str(request.param), INFERSTREAM_SHUTDOWN_GRACE=str(GRACE), within=60
        )

    return start


def grpc_stream(server: Running) -> grpc.StatusCode:
    """How an endless stream over gRPC ends."""
    request = ModelInferRequest(model_name="streaming", id="rpc")
    request.parameters["items"].int64_param = 10**6
    request.parameters["delay"].double_param = 0.1
    with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError) as failure:
        list(GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([request])))
    return failure.value.code()


def test_endless_streams_get_a_last_event_and_the_process_ends_though_an_unload_blocks(served) -> None:
    server = served("def unload(self):")
    endless = text(id="sse", parameters={"items": 10**6, "delay": 0.1})
    with ThreadPoolExecutor(2) as pool:
        events = pool.submit(server.infer, "streaming", endless, "generate_stream")
        rpc = pool.submit(grpc_stream, server)
        eventually(lambda: server.noted("start sse") and server.noted("start rpc"), 20)

        server.process.send_signal(signal.SIGTERM)

        assert server.process.wait(IN_TIME) == 0, server.text()
        assert events.result().text.rstrip().splitlines()[-2] == "event: error"
        assert '"code":"draining"' in events.result().text
        assert rpc.result() is grpc.StatusCode.UNAVAILABLE
    assert server.noted("finally sse")
    assert server.noted("unloading")


def test_an_unload_that_keeps_its_event_loop_has_its_process_ended(served) -> None:
    server = served("async def unload(self):")
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(IN_TIME) == 1, server.text()
    assert server.noted("unloading")
