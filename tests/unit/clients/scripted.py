"""A transport that follows a script."""

import asyncio
from collections.abc import AsyncGenerator

from inferstream.clients.transport import ModelName, OutgoingCall
from inferstream.errors import CallFailed, ConnectionFailed
from inferstream.types import (
    InferenceResponse,
    MetadataModelResponse,
    RepositoryIndexResponse,
    ResponseOutput,
)

REFUSED = ConnectionFailed("no connection", retryable=True, unreachable=True)


BUSY = CallFailed("full", retryable=True, retry_after=0.01, status=429)


def declared(**datatypes: str) -> list[dict]:
    return [{"name": name, "datatype": kind, "shape": [1]} for name, kind in datatypes.items()]


def number(value: int) -> InferenceResponse:
    output = ResponseOutput(name="output", datatype="INT64", shape=[1], data=[value])
    return InferenceResponse(model_name="m", outputs=[output])


class Scripted:
    """Does the next thing of its script at each call: raises it, waits forever, or gives it."""

    def __init__(self, *script: object, metadata: list[dict[str, str]] | None = None) -> None:
        self.script = [*script]
        self.described = metadata or [{"a": "INT64"}]
        self.calls: list[OutgoingCall] = []
        self.fetched: list[ModelName] = []
        self.closed = 0

    async def infer(self, call: OutgoingCall) -> InferenceResponse:
        self.calls.append(call)
        return await self.next()

    async def stream(self, call: OutgoingCall) -> AsyncGenerator[InferenceResponse, None]:
        self.calls.append(call)
        try:
            while self.script:
                if (response := await self.next()) is None:
                    return
                yield response
                if call.more is not None:
                    await anext(call.more, None)
        finally:
            self.closed += 1

    async def next(self) -> InferenceResponse:
        item = self.script.pop(0)
        if isinstance(item, Exception):
            raise item
        if item == "wait":
            await asyncio.Event().wait()
        return item

    async def metadata(self, model: ModelName, timeout: float) -> MetadataModelResponse:
        self.fetched.append(model)
        datatypes = self.described.pop(0) if len(self.described) > 1 else self.described[0]
        fields = {
            "name": "m",
            "platform": "",
            "inputs": declared(**datatypes),
            "outputs": declared(output="INT64"),
        }
        return MetadataModelResponse.model_validate(fields)

    async def index(self, timeout: float) -> RepositoryIndexResponse:
        items = [{"name": name, "state": "READY", "reason": ""} for name in ("b", "a", "b")]
        return RepositoryIndexResponse.model_validate(items)

    async def ready(self, model: ModelName | None, timeout: float) -> bool:
        return model is None or model.name == "a"

    async def aclose(self) -> None:
        self.closed += 1
