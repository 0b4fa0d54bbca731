"""Clients of gRPC with short ping time-outs, while code of a class blocks for longer than those."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, eventually, write_model

CODE = """
import asyncio
import os
import time
from pathlib import Path

from inferstream import MLModel
from inferstream.types import InferenceResponse

LOADED = Path(os.environ["TEST_LOG"] + ".loaded")
BLOCKED = 6


class Loading(MLModel):
    async def load(self):
        if LOADED.exists():
            time.sleep(BLOCKED)
        LOADED.touch()
        return True

    async def predict(self, payload):
        await asyncio.sleep(0)
        return InferenceResponse(model_name=self.name, outputs=[])


class Predicting(MLModel):
    async def predict(self, payload):
        await asyncio.sleep(0)
        time.sleep(BLOCKED)
        return InferenceResponse(model_name=self.name, outputs=[])


class Streaming(MLModel):
    async def predict_stream(self, payloads):
        async for _ in payloads:
            for _ in range(2):
                await asyncio.sleep(0)
                time.sleep(BLOCKED)
                yield InferenceResponse(model_name=self.name, outputs=[])


class Ticking(MLModel):
    async def predict_stream(self, payloads):
        async for _ in payloads:
            while True:
                await asyncio.sleep(0.02)
                yield InferenceResponse(model_name=self.name, outputs=[])
"""

IMPATIENT = [
    ("grpc.keepalive_time_ms", 1000),
    ("grpc.keepalive_timeout_ms", 2000),
    ("grpc.http2.ping_timeout_ms", 2000),  # counts instead of the last one in some versions of grpcio
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.use_local_subchannel_pool", 1),
]


class Ticks:
    """A stream on a connection of its own, which a thread reads."""

    def __init__(self, server: Running) -> None:
        self._channel = grpc.insecure_channel(server.grpc, IMPATIENT)
        request = ModelInferRequest(model_name="ticking")
        self._stream = GRPCInferenceServiceStub(self._channel).ModelStreamInfer(iter([request]))
        self.count = 0
        self.error: grpc.RpcError | None = None
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        try:
            for _ in self._stream:
                self.count += 1
        except grpc.RpcError as error:
            self.error = error

    def go_on(self) -> bool:
        """Whether further items arrive."""
        before = self.count
        eventually(lambda: self.count > before + 5 or self.error is not None, 10)
        return self.error is None

    def close(self) -> None:
        self._stream.cancel()
        self._thread.join(10)
        self._channel.close()


@pytest.fixture
def ticking() -> Iterator[Callable[[Running], Ticks]]:
    streams: list[Ticks] = []

    def ticking(server: Running) -> Ticks:
        streams.append(Ticks(server))
        return streams[-1]

    yield ticking
    for stream in streams:
        stream.close()


def load(server: Running) -> None:
    url = f"{server.url}/v2/repository/models/loading/load"
    assert httpx.post(url, timeout=60).status_code == 200


def call(server: Running, model: str) -> Any:
    """The responses of a call whose client is as impatient."""
    with grpc.insecure_channel(server.grpc, IMPATIENT) as channel:
        stub, request = GRPCInferenceServiceStub(channel), ModelInferRequest(model_name=model)
        if model == "streaming":
            return [*stub.ModelStreamInfer(iter([request]), timeout=60)]
        return [stub.ModelInfer(request, timeout=60)]


def infer(server: Running) -> None:
    assert len(call(server, "predicting")) == 1


def stream(server: Running) -> None:
    assert len(call(server, "streaming")) == 2


@pytest.mark.parametrize(("blocks", "frontends"), [(load, 1), (infer, 1), (stream, 1), (infer, 2)])
def test_streams_continue_after_class_blocks_event_loop(
    start: Callable[..., Running],
    tmp_path: Path,
    ticking: Callable[[Running], Ticks],
    blocks: Callable[[Running], None],
    frontends: int,
) -> None:
    folder = tmp_path / "models"
    for name in ("Loading", "Predicting", "Streaming", "Ticking"):
        write_model(folder, name.lower(), f"model.{name}", CODE)
    often = {"grpc.http2.min_ping_interval_without_data_ms": 500}  # as often as these clients ping
    (folder / "settings.json").write_text(json.dumps({"_custom_grpc_server_settings": often}))
    server = start(folder, "--frontends", str(frontends), INFERSTREAM_PARALLEL_WORKERS="0", within=60)
    streams = [ticking(server) for _ in range(2 * frontends)]
    for each in streams:
        assert each.go_on(), each.error
    blocks(server)
    for each in streams:
        assert each.go_on(), each.error
