"""The interface of a client's transports: their target, and a call."""

import math
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field
from ssl import CERT_NONE, PROTOCOL_TLS_CLIENT, SSLContext, create_default_context
from typing import NamedTuple, Protocol
from urllib.parse import quote

from ..types import InferenceRequest, InferenceResponse, MetadataModelResponse, RepositoryIndexResponse


class ModelName(NamedTuple):
    """A model of a server. Without a version the server chooses one."""

    name: str
    version: str | None = None

    @property
    def path(self) -> str:
        """The path of its URLs."""
        version = "" if self.version is None else f"/versions/{quote(self.version, safe='')}"
        return f"/v2/models/{quote(self.name, safe='')}{version}"


@dataclass(frozen=True, slots=True)
class Target:
    """A server, and how to reach it. `timeout` is in seconds per call."""

    url: str
    timeout: float = 60.0
    binary: bool = False
    ssl: bool = False
    verify: bool = True
    connections: int = 10
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers of requests that have none of their own, such as those for metadata."""

    @property
    def base(self) -> str:
        """The URL of the server with its scheme, without a slash at the end."""
        scheme, colon, rest = self.url.partition("://")
        if not colon:
            scheme, rest = "https" if self.ssl else "http", self.url
        return f"{scheme.lower()}://{rest.rstrip('/')}"

    @property
    def verifies(self) -> bool:
        """Whether HTTP needs a context that verifies, which takes 20 ms to make."""
        return self.verify and self.base.startswith("https:")

    def tls_context(self) -> SSLContext | None:
        """The context of TLS connections over HTTP; None for a server without TLS."""
        if not self.base.startswith("https:"):
            return None
        return create_default_context() if self.verify else any_certificate()


@dataclass(frozen=True, slots=True)
class OutgoingCall:
    """A request for a model, on its way to the server.

    `timeout` is in seconds. If `tells_timeout`, the server gets it as its deadline. `binary` asks for binary tensors in
    both directions, where the transport has a choice. `more` yields the later requests of a stream.
    """

    model: ModelName
    request: InferenceRequest
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float = math.inf
    binary: bool = False
    tells_timeout: bool = True
    more: AsyncIterator[InferenceRequest] | None = None

    def http_headers(self) -> dict[str, str]:
        """The headers, with the one that tells the server the time limit in seconds."""
        if not self.tells_timeout or self.timeout == math.inf:
            return {**self.headers}
        return {**self.headers, "x-request-timeout": f"{max(self.timeout, 0.001):.3f}"}


def any_certificate() -> SSLContext:
    """The context of a client that accepts any certificate of a server."""
    context = SSLContext(PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = CERT_NONE
    return context


class Transport(Protocol):
    """Calls the models of one server. Every method raises CallFailed. Timeouts are in seconds."""

    async def infer(self, call: OutgoingCall) -> InferenceResponse: ...

    def stream(self, call: OutgoingCall) -> AsyncGenerator[InferenceResponse, None]:
        """Each response when it arrives. Closing the iterator cancels the call. The caller limits its time."""

    async def metadata(self, model: ModelName, timeout: float) -> MetadataModelResponse: ...

    async def index(self, timeout: float) -> RepositoryIndexResponse:
        """The models of the server that are ready."""

    async def ready(self, model: ModelName | None, timeout: float) -> bool:
        """Whether a model is ready, or the server without one."""

    async def aclose(self) -> None: ...
