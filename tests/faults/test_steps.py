"""Steps that never end, and workers that die in one: every stream ends, and the server goes on."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from httpx_sse import connect_sse

from tests.serving import Running, eventually, fp32, text, write_model

CODE = """
import asyncio
import os
import time

from inferstream import Finished, StepModel
from inferstream.codecs import StringCodec
from inferstream.types import InferenceResponse


class Blocking(StepModel):
    def admit(self, request):
        return request.parameters

    def step(self, states):
        time.sleep(600 if any(state.get("hang", 0) for state in states) else 0.01)
        return [self.advance(state) for state in states]

    def advance(self, state):
        response = InferenceResponse(
            model_name=self.name, outputs=[StringCodec.encode_output("pid", [str(os.getpid())])]
        )
        return response if state.get("endless", 0) else Finished(response)


class Waiting(Blocking):
    async def admit(self, request):
        return request.parameters

    async def step(self, states):
        await asyncio.sleep(600 if any(state.get("hang", 0) for state in states) else 0.01)
        return [self.advance(state) for state in states]
"""

KINDS = pytest.mark.parametrize("kind", ["Blocking", "Waiting"])


def write_models(tmp_path: Path, **settings) -> Path:
    for kind in ("Blocking", "Waiting"):
        write_model(tmp_path / "models", kind, f"stuck.{kind}", CODE, **settings)
    write_model(tmp_path / "models", "echo", "faulty_models.Echo")
    return tmp_path / "models"


@pytest.fixture
def working(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """A server with so many workers."""
    running: list[Running] = []

    def start(workers: int, **settings) -> Running:
        folder = write_models(tmp_path, **settings)
        running.append(Running(folder, INFERSTREAM_PARALLEL_WORKERS=str(workers)))
        return running[-1]

    yield start
    for server in running:
        server.stop()


@KINDS
def test_hung_step_ends_its_streams_and_worker_is_replaced(
    working: Callable[..., Running], kind: str
) -> None:
    server = working(1, request_timeout=2)
    before = server.workers()
    beside = {"parameters": {"endless": 1}}
    with ThreadPoolExecutor(4) as pool:
        url = f"{server.url}/v2/models/{kind}/generate_stream"
        found = [pool.submit(httpx.post, url, json=text(**beside), timeout=20) for _ in range(2)]
        assert server.infer(kind, text(parameters={"hang": 1})).status_code == 504
        for future in found:
            assert "deadline" in future.result().text
    eventually(lambda: server.workers() not in (before, []), 10)
    for model, request in ((kind, text()), ("echo", fp32([1.0, 2.0]))):
        eventually(lambda: server.infer(model, request).status_code == 200, 10)  # noqa: B023
    server.probe()


def test_hung_step_does_not_block_server(serve: Callable[..., Running], tmp_path: Path) -> None:
    server = serve(write_models(tmp_path), INFERSTREAM_SHUTDOWN_GRACE="0.5")
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(server.infer, "Blocking", text(parameters={"hang": 1}))
        eventually(lambda: server.metric("inferstream_streams_active", model="Blocking") == 1)
        server.probe()
        assert server.stop() == 0, server.text()
        assert hanging.exception() is not None or hanging.result().status_code == 503


def test_worker_crash_ends_only_its_streams(
    working: Callable[..., Running],
) -> None:
    server = working(2)
    url = f"{server.url}/v2/models/Blocking/generate_stream"
    with httpx.Client(timeout=20) as client:
        streams = [connect_sse(client, "POST", url, json=text(parameters={"endless": 1})) for _ in range(4)]
        events = [stream.__enter__().iter_sse() for stream in streams]

        def pid(index: int) -> int:
            return int(json.loads(next(events[index]).data)["outputs"][0]["data"][0])

        pids = [pid(index) for index in range(4)]
        assert len(set(pids)) == 2
        eventually(lambda: server.metric("inferstream_streams_active", model="Blocking") == 4)
        os.kill(pids[0], signal.SIGKILL)
        for index in range(4):
            if pids[index] == pids[0]:
                *_, last = events[index]
                assert last.event == "error"
                assert json.loads(last.data)["code"] == "worker_lost"
            else:
                assert [pid(index) for _ in range(5)] == [pids[index]] * 5
        eventually(lambda: server.metric("inferstream_streams_active", model="Blocking") == 2)
        for stream in streams:
            stream.__exit__(None, None, None)
    eventually(lambda: server.metric("inferstream_streams_active", model="Blocking") == 0)
