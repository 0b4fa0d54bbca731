"""The interface of the client transports, with the target and the call that they use."""

import math
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field
from ssl import CERT_NONE, PROTOCOL_TLS_CLIENT, SSLContext, create_default_context
from typing import NamedTuple, Protocol
from urllib.parse import quote

from ..types import InferenceRequest, InferenceResponse, MetadataModelResponse, RepositoryIndexResponse


class ModelName(NamedTuple):
    """The name and version of a model. Without a version, the server chooses one."""

    name: str
    version: str | None = None

    @property
    def path(self) -> str:
        """The URL path of the model."""
        version = "" if self.version is None else f"/versions/{quote(self.version, safe='')}"
        return f"/v2/models/{quote(self.name, safe='')}{version}"


@dataclass(frozen=True, slots=True)
class Target:
    """A server, and how to reach it. `timeout` is the time limit of a call in seconds."""

    url: str
    timeout: float = 60.0
    binary: bool = False
    ssl: bool = False
    verify: bool = True
    connections: int = 10
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers of requests that specify none, for example requests for metadata."""

    @property
    def base(self) -> str:
        """The server URL with its scheme, without a trailing slash."""
        scheme, colon, rest = self.url.partition("://")
        if not colon:
            scheme, rest = "https" if self.ssl else "http", self.url
        return f"{scheme.lower()}://{rest.rstrip('/')}"

    @property
    def verifies(self) -> bool:
        """Whether HTTP needs a verifying TLS context, which takes 20 ms to create."""
        return self.verify and self.base.startswith("https:")

    def tls_context(self) -> SSLContext | None:
        """Return the context for HTTPS connections, or None if the server does not use TLS."""
        if not self.base.startswith("https:"):
            return None
        return create_default_context() if self.verify else build_unverified_context()


@dataclass(frozen=True, slots=True)
class OutgoingCall:
    """A request to a model.

    `timeout` is in seconds, and is sent to the server as the deadline if `tells_timeout`. `binary` requests
    binary tensors in both directions, if the transport supports both formats. `more` yields the later
    requests of a stream.
    """

    model: ModelName
    request: InferenceRequest
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float = math.inf
    binary: bool = False
    tells_timeout: bool = True
    more: AsyncIterator[InferenceRequest] | None = None

    def http_headers(self) -> dict[str, str]:
        """Return the HTTP headers, including `X-Request-Timeout` with the time limit in seconds."""
        if not self.tells_timeout or self.timeout == math.inf:
            return {**self.headers}
        return {**self.headers, "x-request-timeout": f"{max(self.timeout, 0.001):.3f}"}


def build_unverified_context() -> SSLContext:
    """Return an SSL context that accepts any server certificate."""
    context = SSLContext(PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = CERT_NONE
    return context


class Transport(Protocol):
    """Calls the models of one server. Every method raises CallFailed. Timeouts are in seconds."""

    async def infer(self, call: OutgoingCall) -> InferenceResponse: ...

    def stream(self, call: OutgoingCall) -> AsyncGenerator[InferenceResponse, None]:
        """Yield each response when it arrives.

        Closing the iterator cancels the call. The caller enforces the time limit.
        """

    async def metadata(self, model: ModelName, timeout: float) -> MetadataModelResponse: ...

    async def index(self, timeout: float) -> RepositoryIndexResponse:
        """Return the models that are ready."""

    async def ready(self, model: ModelName | None, timeout: float) -> bool:
        """Return whether a model, or the server if `model` is None, is ready."""

    async def aclose(self) -> None: ...
