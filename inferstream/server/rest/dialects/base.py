"""The parts of each dialect of HTTP: paths, a way to read a request, and ways to write what comes of it."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol

import orjson

from ....dataplane.access import Action
from ....dataplane.admission import Admission
from ....dataplane.call import Operation
from ....dataplane.caller import Caller
from ....dataplane.models import ServerModels
from ....dataplane.reply import Reply
from ....errors import InferstreamError, InvalidRequest
from ....protos import sse
from ....protos.json_body import JsonBody
from ....settings import Settings
from ....telemetry.console import TITLES
from ....telemetry.metrics import Meters
from ....types import InferenceRequest, InferenceResponse, RequestInput
from ...headers import sendable
from ..exchange import Exchange
from ..messages import JSON, PREFIX, RawHeaders, Scope, accepted, error_response, wrap

GET = ("GET", "HEAD")
"""RFC 9110, section 9.1: what serves GET serves HEAD. Monitors probe with it, and so does the ollama command."""

VERSIONS = "/versions/"


class HttpDialect:
    """Paths that belong together.

    A path may hold one placeholder. Of one that ends with `name}` the value may hold slashes, and
    `version_mark` and a version may follow it.
    """

    name: ClassVar[str]

    title: ClassVar[str] = ""
    """The name in access lines; empty for a dialect that people know as REST."""

    siblings: "Sequence[HttpDialect]" = ()
    """All dialects of the server, this one among them."""

    yields: ClassVar[bool] = False
    """Whether a model's own route at one of its paths is served instead."""

    version_mark: ClassVar[str] = VERSIONS
    """What separates a name from a version in its paths."""

    of_models: ClassVar[bool] = True
    """Whether a name in its paths is that of a loaded model. Else a wrong method is refused for whatever name."""

    of_metrics: ClassVar[bool] = False
    """Whether the port of the metrics has its paths too."""

    def __init_subclass__(cls) -> None:
        if cls.title:
            TITLES[cls.name] = cls.title

    def __init__(self, dataplane: ServerModels, settings: Settings, meters: Meters) -> None:
        self._dataplane = dataplane
        self._settings = settings
        self._meters = meters

    def reads(self) -> "Sequence[ReadClaim]":
        """The paths of this dialect that are no inferences."""
        return ()

    def described(self) -> Mapping[str, Any]:
        """The paths of the OpenAPI document that describe this dialect."""
        return {}

    def error(self, error: InferstreamError) -> tuple[int, RawHeaders, bytes]:
        """Status, headers and body of a request that failed before its response began."""
        return error_response(error, self._settings.status_profile)

    def _prefix(self, scope: Scope, default: str | None = None) -> str:
        """The path below which the server is mounted; else `default`, which is the setting `root_path` if None."""
        return str(scope.get(PREFIX, self._settings.root_path if default is None else default))

    def _encoding(self, scope: Scope) -> bytes | None:
        """The encoding that the client and the setting `gzip_enabled` allow: `gzip`, `deflate`, or None."""
        if not self._settings.gzip_enabled:
            return None
        return accepted(dict(scope["headers"]).get(b"accept-encoding", b""))

    def _only_model(self, names: Iterable[str], some: str, none: str) -> str:
        """The model of a request that names none: the default model, or the only one of `names`.

        Raises InvalidRequest, which says `some` of several names, or `none`.
        """
        if self._settings.default_model is not None:
            return self._settings.default_model
        known = sorted({*names})
        if len(known) != 1:
            there = some.format(", ".join(known)) if known else none
            raise InvalidRequest(
                f"The request names no model, and {there}. The setting default_model names one."
            )
        return known[0]


class PendingPart(Protocol):
    """A part of a request that is being made in a thread or a process."""

    async def write(self) -> None:
        """Wait for it and put it into the request. Raises InvalidRequest, ModelError."""


class InferenceDialect(HttpDialect, ABC):
    """A dialect with inferences of its own."""

    inferences: Mapping[str, Operation]
    """What a request to each path asks for."""

    resumable: ClassVar[bool] = False
    """Whether clients may resume its streams."""

    queried: ClassVar[Sequence[str]] = ()
    """Paths of streams that serve GET too, with the arguments in the query."""

    body_decides: ClassVar[bool] = False
    """Whether a body says if its client wants a stream."""

    methods: ClassVar[Sequence[str]] = ("POST",)
    """The methods that stand for an inference."""

    takes_json: ClassVar[bool] = True
    """Whether its bodies are JSON, whose limits then hold for them."""

    takes_files: ClassVar[bool] = False
    """Whether a body may be a form or a file. If it may be JSON too, `of_inputs` makes the request of the others."""

    @cached_property
    def _v2(self) -> "InferenceDialect":
        """V2, for bodies that are V2 requests."""
        inferring = (each for each in self.siblings if isinstance(each, InferenceDialect))
        return next(each for each in inferring if each.name == "v2")

    def of_json(self, admission: Admission, operation: Operation, body: JsonBody) -> "ParsedRequest":
        """The request in a body that another dialect has parsed. Raises InvalidRequest."""
        raise NotImplementedError

    def of_inputs(
        self, admission: Admission, operation: Operation, inputs: list[RequestInput]
    ) -> "ParsedRequest":
        """A request with these inputs, whose client wants the response of this dialect."""
        raise NotImplementedError

    @abstractmethod
    def parse(
        self,
        exchange: Exchange,
        body: bytes,
        route: "Route",
        caller: Caller,
        admission: Admission | None,
    ) -> "ParsedRequest":
        """Read a request, whose `body` is whole and decompressed. Raises what there is to refuse.

        `admission` is that of the model that the path names. Where the body names it, the dialect asks for it.
        """


class Events(Protocol):
    """Writes the responses of one stream as events."""

    def __call__(self, response: InferenceResponse) -> bytes | None:
        """The event of a response; empty if there is none, None if the client wants no further response."""

    def end(self) -> bytes:
        """The events after the last response of a stream that ended well."""


class Gathering(Protocol):
    """Collects the responses of a stream for one whole response."""

    def add(self, response: InferenceResponse) -> bool:
        """Take a response. False if the client wants no further response."""

    def end(self) -> tuple[RawHeaders, bytes]:
        """The whole response: the headers of its content, in a list of their own, and its body."""


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

    pending: "PendingPart | None" = None
    """What has to be written before `open`."""

    @staticmethod
    def sendable_headers(headers: Mapping[str, str]) -> RawHeaders:
        """The headers of model code that a response can have: none that describes the message itself."""
        return sendable(headers.items())

    @property
    def media_type(self) -> bytes:
        """That of a stream."""
        return sse.CONTENT_TYPE

    @property
    def heartbeat(self) -> bytes:
        """What a stream sends while its model is silent; empty where clients would read it as a response."""
        return sse.HEARTBEAT

    def open(self) -> Awaitable[Reply]:
        """Open the reply to the request."""
        return self.admission.open(self.operation, self.request)

    @staticmethod
    def wrap_error(error: BaseException) -> InferstreamError:
        """The error that a client gets: one of this package as it is. Any other is logged, without details for clients.

        A request needs it for calls whose failures are parts of its response.
        """
        return wrap(error)

    @property
    def is_streamed(self) -> bool:
        """Whether the client wants a stream as it comes."""
        return self.gathering() is None

    def gathering(self) -> Gathering | None:
        """What makes one whole response of a stream; None for a client that wants the stream."""
        return None

    @abstractmethod
    def response(self, response: InferenceResponse) -> tuple[RawHeaders, bytes]:
        """A whole response: the headers of its content, in a list of their own, and its body."""

    def events(self) -> Events:
        """What writes each response of one stream as an event. A request without a stream has none."""
        raise NotImplementedError

    def failure(self, error: InferstreamError) -> bytes | None:
        """The event that ends a stream in error; None for a stream without a place for it, which is cut off.

        A request without a stream has none.
        """
        raise NotImplementedError


class GatheringRequest(ParsedRequest):
    """A request that collects the responses to it itself, for one whole response."""

    __slots__ = ()

    @abstractmethod
    def add(self, response: InferenceResponse) -> bool:
        """As of `Gathering`."""

    @abstractmethod
    def end(self) -> tuple[RawHeaders, bytes]:
        """As of `Gathering`."""

    def gathering(self) -> Gathering | None:
        return self

    def response(self, response: InferenceResponse) -> tuple[RawHeaders, bytes]:
        self.add(response)
        return self.end()


class Route(NamedTuple):
    """An inference that a path asks for."""

    dialect: InferenceDialect
    operation: Operation
    model: str
    """Empty where the body names the model."""
    version: str | None
    template: str
    """The path as metrics and traces name it."""
    action: Action = Action.INFER

    @property
    def resumable(self) -> bool:
        """Whether a request for a stream may be for the rest of an earlier one."""
        return self.operation is Operation.STREAM and self.dialect.resumable


class ReadRoute(NamedTuple):
    """Anything else that a path asks for."""

    path: str
    """The path as traces name it."""
    claim: "ReadClaim"
    dialect: HttpDialect
    model: str = ""
    version: str | None = None
    value: str = ""
    """What stands for a placeholder that names no model."""
    body: bytes = b""
    """JSON, decompressed and counted, where the claim takes a body."""

    def document(self) -> dict[str, Any]:
        """The JSON object in the body, of any content type; empty without a body. Raises InvalidRequest."""
        if not self.body.strip():
            return {}
        try:
            value = orjson.loads(self.body)
        except orjson.JSONDecodeError as error:
            raise InvalidRequest(f"The body is not valid JSON: {error}") from None
        if not isinstance(value, dict):
            raise InvalidRequest("The body must be a JSON object.")
        return value


Answer = tuple[int, RawHeaders, bytes]
"""Status, headers and body."""

Answering = Callable[
    [ReadRoute, Caller, Scope], Awaitable[tuple[int, RawHeaders, bytes | AsyncGenerator[bytes, None]]]
]
"""Gives status, headers and the body, whole or as it comes. Raises what the dialect then writes as an error."""


class ReadClaim(NamedTuple):
    """A path, the operation that it stands for, and what answers there."""

    path: str
    action: Action
    respond: Answering
    methods: tuple[str, ...] | None = GET
    """The methods that are allowed; None for all."""
    takes_body: bool = False
    """Whether the route gets the body of the request."""
    gives_way: bool = False
    """Whether a dialect that joins may claim the path instead. Only the server's own claims give way."""


def in_json(content: Any, status: int = 200) -> Answer:
    """An answer of JSON."""
    return status, [JSON], orjson.dumps(content)
