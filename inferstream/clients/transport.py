"""What every transport of a client does, and needs to know."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ..types import InferenceRequest, InferenceResponse, MetadataModelResponse


@dataclass(frozen=True, slots=True)
class Target:
    """Which model of which server, and how to reach it; `timeout` is seconds for one call."""

    url: str
    model: str
    timeout: float = 60.0
    binary: bool = False
    ssl: bool = False
    verify: bool = True
    connections: int = 10


class Transport(Protocol):
    """Asks one model of one server."""

    async def infer(self, request: InferenceRequest, headers: Mapping[str, str]) -> InferenceResponse:
        """The model's answer. Raises CallFailed."""
        ...

    async def metadata(self) -> MetadataModelResponse:
        """What the model says of itself. Raises CallFailed."""
        ...

    async def aclose(self) -> None:
        """End every connection."""
        ...
