"""The interface of a client's transports, and their target."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ..types import InferenceRequest, InferenceResponse, MetadataModelResponse


@dataclass(frozen=True, slots=True)
class Target:
    """A model of a server, and how to reach it. `timeout` is in seconds per call."""

    url: str
    model: str
    timeout: float = 60.0
    binary: bool = False
    ssl: bool = False
    verify: bool = True
    connections: int = 10


class Transport(Protocol):
    """Calls one model of one server. The calls raise CallFailed."""

    async def infer(self, request: InferenceRequest, headers: Mapping[str, str]) -> InferenceResponse: ...

    async def metadata(self) -> MetadataModelResponse: ...

    async def aclose(self) -> None: ...
