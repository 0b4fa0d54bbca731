"""Stopping while everything stands in the way: streams that go on, unloads that block, workers that hang."""

import json
import signal
from collections.abc import Callable
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


@pytest.fixture
def served(start: Callable[..., Running], workers: int, tmp_path: Path) -> Callable[[str], list[Running]]:
    """
    Serve an endless stream beside a model whose `unload` is written so: with one front end, and with two.

    Both at the same time, because each takes seconds to end.
    """

    def serve(unload: str, **stuck: str) -> list[Running]:
        servers = []
        for frontends in (1, 2):
            folder = tmp_path / str(frontends) / "models"
            write_model(folder, "streaming", "faulty_models.Streaming")
            write_model(folder, "stuck", "stuck.Stuck", STUCK.replace("{unload}", unload), **stuck)
            settings = {"frontends": frontends, "shutdown_grace": GRACE, "parallel_workers": workers}
            (folder / "settings.json").write_text(json.dumps(settings))
            servers.append(start(folder, within=60))
        return servers

    return serve


def grpc_stream(server: Running) -> grpc.StatusCode:
    """How an endless stream over gRPC ends."""
    request = ModelInferRequest(model_name="streaming", id="rpc")
    request.parameters["items"].int64_param = 10**6
    request.parameters["delay"].double_param = 0.1
    with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError) as failure:
        list(GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([request])))
    return failure.value.code()


def test_endless_streams_get_last_event_and_hung_unload_is_killed(served) -> None:
    servers = served("def unload(self):")
    endless = text(id="sse", parameters={"items": 10**6, "delay": 0.1})
    with ThreadPoolExecutor(2 * len(servers)) as pool:
        events = [pool.submit(server.infer, "streaming", endless, "generate_stream") for server in servers]
        rpcs = [pool.submit(grpc_stream, server) for server in servers]
        for server in servers:
            eventually(lambda server=server: server.noted("start sse") and server.noted("start rpc"), 20)

        for server in servers:
            server.process.send_signal(signal.SIGTERM)

        for server, event, rpc in zip(servers, events, rpcs, strict=True):
            assert server.process.wait(IN_TIME) == 0, server.text()
            assert event.result().text.rstrip().splitlines()[-2] == "event: error"
            assert '"code":"draining"' in event.result().text
            assert rpc.result() is grpc.StatusCode.UNAVAILABLE
            assert server.noted("finally sse")
            assert server.noted("unloading")


@pytest.mark.parametrize(("loop", "exit_code"), [("server", 1), ("own", 0)])
def test_unload_blocking_event_loop_is_killed(served, loop: str, exit_code: int) -> None:
    servers = served("async def unload(self):", loop=loop)
    for server in servers:
        server.process.send_signal(signal.SIGTERM)
    for server in servers:
        assert server.process.wait(IN_TIME) == exit_code, server.text()
        assert server.noted("unloading")
