"""What each dialect of HTTP consists of: paths, a way to read a request, and ways to write what comes of it."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import ClassVar, NamedTuple

from ....dataplane.admission import Admission
from ....dataplane.call import Operation
from ....dataplane.dataplane import DataPlane
from ....errors import InferstreamError
from ....settings import Settings
from ....telemetry.metrics import Meters
from ....types import InferenceRequest, InferenceResponse
from ..exchange import Exchange
from ..messages import RawHeaders, error_response

GET = ("GET",)


class HttpDialect:
    """Paths that belong together.

    A path may hold one placeholder. Of one that ends with `name}` the value may hold slashes, and
    `/versions/` and a version may follow it.
    """

    name: ClassVar[str]

    def __init__(self, dataplane: DataPlane, settings: Settings, meters: Meters) -> None:
        self._dataplane = dataplane
        self._settings = settings
        self._meters = meters

    def reads(self) -> "Sequence[ReadClaim]":
        """The paths of this dialect that are no inferences."""
        return ()

    def error(self, error: InferstreamError) -> tuple[int, RawHeaders, bytes]:
        """Status, headers and body of a request that failed before its response began."""
        return error_response(error, self._settings.status_profile)


class InferenceDialect(HttpDialect, ABC):
    """A dialect with inferences of its own."""

    inferences: ClassVar[Mapping[str, Operation]]
    """What a POST to each path asks for."""

    @abstractmethod
    def parse(self, exchange: Exchange, body: bytes, route: "Route") -> "ParsedRequest":
        """Read a request, whose `body` is whole and decompressed. Raises what there is to refuse.

        Where the path names the model, ask for its admission first: a full queue costs no parsing then.
        """


class ParsedRequest(ABC):
    """A request as its client meant it, and how that client wants the response written."""

    __slots__ = ("admission", "operation", "request")

    admission: Admission
    operation: Operation
    request: InferenceRequest

    headers: RawHeaders = []
    """Headers of a response, whole or streamed, beside those of its content."""

    compressible = False
    """Whether a whole response may be compressed."""

    closing = b""
    """What follows the last event of a stream that ends well."""

    @abstractmethod
    def response(self, response: InferenceResponse) -> tuple[RawHeaders, bytes]:
        """A whole response: the headers of its content, in a list of their own, and its body."""

    @abstractmethod
    def events(self) -> Callable[[InferenceResponse], bytes]:
        """What writes each response of one stream as an event."""

    @abstractmethod
    def failure(self, error: InferstreamError) -> bytes:
        """The event that ends a stream in error."""


class Route(NamedTuple):
    """An inference that a path asks for."""

    dialect: InferenceDialect
    operation: Operation
    model: str
    """Empty where the body names the model."""
    version: str | None
    template: str
    """The path as metrics and traces name it."""


class ReadRoute(NamedTuple):
    """Anything else that a path asks for."""

    path: str
    """The path as traces name it."""
    claim: "ReadClaim"
    dialect: HttpDialect
    model: str = ""
    version: str | None = None


class ReadClaim(NamedTuple):
    """A path, and what answers there."""

    path: str
    read: Callable[[ReadRoute], Awaitable[tuple[int, bytes]]]
    """Gives status and body. Raises whatever the dialect then writes as an error."""
    methods: tuple[str, ...] | None = GET
    """The methods that are allowed; None for all."""
    content_type: bytes = b"application/json"
