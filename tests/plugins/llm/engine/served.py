"""A model behind a fake engine, in the event loop of a test."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from inferstream.testing import InProcess, encode, run
from inferstream.types import InferenceRequest, InferenceResponse
from tests.fake_engine import FakeEngine, events, write_tokenizer
from tests.fake_inference import FakeInference
from tests.fake_openengine import FakeOpenEngine

PROTOCOLS: dict[str, type[FakeEngine]] = {
    "vllm.grpc.engine": FakeEngine,
    "vllm.inference": FakeInference,
    "openengine": FakeOpenEngine,
}


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each protocol in turn, for all engines of a test."""
    monkeypatch.setattr("tests.plugins.llm.engine.served.current", request.param)
    return str(request.param)


current = "vllm.grpc.engine"
"""The protocol of the engines."""


def build_engine(tokenizer: Path, control: Path, **options: Any) -> FakeEngine:
    return PROTOCOLS[current](tokenizer, control, **options)


class Served:
    """A client of the model `llm`, and its engine."""

    def __init__(self, client: InProcess, engine: FakeEngine, server: grpc.aio.Server) -> None:
        self.client, self.engine, self.server = client, engine, server

    @property
    def asked(self) -> dict[str, Any]:
        """The last call that the engine received."""
        return events(self.engine.control, "generate")[-1]

    def control(self, name: str, text: str = "") -> Path:
        path = self.engine.control / name
        path.write_text(text)
        return path

    async def stream(self, prompt: Any = "one two", **parameters: Any) -> list[InferenceResponse]:
        return [each async for each in self.client.stream("llm", request(prompt, **parameters))]

    async def text(self, prompt: Any = "one two", **parameters: Any) -> str:
        return text_of(await self.stream(prompt, **parameters))


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


def request(prompt: Any = None, **parameters: Any) -> InferenceRequest:
    names = ("messages", "tools", "response_format")
    inputs = {name: json.dumps(parameters.pop(name)) for name in names if name in parameters}
    if prompt is not None:
        inputs["prompt"] = prompt
    return InferenceRequest(
        inputs=[encode(name, value) for name, value in inputs.items()], parameters=parameters
    )


def text_of(responses: list[InferenceResponse]) -> str:
    return "".join(str(each.outputs[0].data[0]) for each in responses if each.outputs)


def write_settings(folder: Path, extra: dict[str, Any], **settings: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if current != "vllm.grpc.engine":
        extra = {"protocol": current, "tokenizer": str(folder.parents[1] / "tokenizer"), **extra}
    document = {"name": "llm", "implementation": "engine", "parameters": {"extra": extra}, **settings}
    (folder / "model-settings.json").write_text(json.dumps(document))
    return folder


@asynccontextmanager
async def running(engine: FakeEngine, address: str) -> AsyncIterator[grpc.aio.Server]:
    server = engine.server()
    assert server.add_insecure_port(address)
    await server.start()
    try:
        yield server
    finally:
        await server.stop(0)


@asynccontextmanager
async def serve(
    folder: Path,
    extra: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    **options: Any,
) -> AsyncIterator[Served]:
    """Serve a model whose engine has these `options`."""
    tokenizer = write_tokenizer(folder / "tokenizer")
    engine = build_engine(tokenizer, folder / "control", **options)
    address = f"unix:{folder}/engine"
    async with running(engine, address) as server:
        models = write_settings(
            folder / "models" / "llm", {"target": address, **(extra or {})}, **(settings or {})
        )
        async with run(str(models.parent)) as client:
            yield Served(client, engine, server)
