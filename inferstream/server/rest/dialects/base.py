"""Base classes of HTTP dialects: paths, request parsing and response formats."""

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
from ....protos.json_requests import describe_body
from ....settings import Settings
from ....telemetry.console import TITLES
from ....telemetry.metrics import Meters
from ....types import InferenceRequest, InferenceResponse, RequestInput
from ...headers import select_sendable
from ..exchange import Exchange
from ..messages import JSON, PREFIX, RawHeaders, Scope, choose_encoding, error_response, wrap

GET = ("GET", "HEAD")
"""The methods of a read route. A resource that supports GET supports HEAD (RFC 9110 section 9.1).

Monitors and the ollama command use HEAD.
"""

VERSIONS = "/versions/"


class HttpDialect:
    """A set of paths with a common request and response format.

    A path may have one placeholder. If its name ends in `name`, the value may contain slashes, and may be
    followed by `version_mark` and a version.
    """

    name: ClassVar[str]

    title: ClassVar[str] = ""
    """The name in access log lines. Empty for dialects that are shown as REST."""

    siblings: "Sequence[HttpDialect]" = ()
    """All dialects of the server, including this one."""

    yields: ClassVar[bool] = False
    """Whether a custom route of a model at one of its paths takes precedence."""

    version_mark: ClassVar[str] = VERSIONS
    """The separator between a model name and a version in its paths."""

    of_models: ClassVar[bool] = True
    """Whether the name in its paths is a model name. If not, a wrong method returns 405 for any name."""

    of_metrics: ClassVar[bool] = False
    """Whether its paths are also served on the metrics port."""

    def __init_subclass__(cls) -> None:
        if cls.title:
            TITLES[cls.name] = cls.title

    def __init__(self, dataplane: ServerModels, settings: Settings, meters: Meters) -> None:
        self._dataplane = dataplane
        self._settings = settings
        self._meters = meters

    def reads(self) -> "Sequence[ReadClaim]":
        """Return the paths of this dialect that are not inference routes."""
        return ()

    def described(self) -> Mapping[str, Any]:
        """Return the OpenAPI paths of this dialect."""
        return {}

    def error(self, error: InferstreamError) -> tuple[int, RawHeaders, bytes]:
        """Return the status, headers and body for a request that failed before its response started."""
        return error_response(error, self._settings.status_profile)

    def _prefix(self, scope: Scope, default: str | None = None) -> str:
        """Return the prefix under which the server is mounted.

        Without a mount, returns `default`, or the setting `root_path` if `default` is None.
        """
        return str(scope.get(PREFIX, self._settings.root_path if default is None else default))

    def _encoding(self, scope: Scope) -> bytes | None:
        """Return `gzip`, `deflate` or None: the encoding that the client and `gzip_enabled` allow."""
        if not self._settings.gzip_enabled:
            return None
        return choose_encoding(dict(scope["headers"]).get(b"accept-encoding", b""))

    def _only_model(self, names: Iterable[str], some: str, none: str) -> str:
        """Return the model for a request without a model name: the default model, or the only one in `names`.

        Raises InvalidRequest if `names` has several names or none. The message contains `some`, with the list
        of names in place of `{}`, or `none`.
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
    """A part of a request that a thread or a process is still preparing."""

    async def write(self) -> None:
        """Wait for the part and add it to the request. Raises InvalidRequest or ModelError."""


class InferenceDialect(HttpDialect, ABC):
    """A dialect with inference routes."""

    inferences: Mapping[str, Operation]
    """The operation of each path."""

    resumable: ClassVar[bool] = False
    """Whether clients can resume its streams."""

    queried: ClassVar[Sequence[str]] = ()
    """Paths of streams that also accept GET, with the arguments in the query."""

    body_decides: ClassVar[bool] = False
    """Whether the body, not the path, determines if the response is a stream."""

    methods: ClassVar[Sequence[str]] = ("POST",)
    """The methods of an inference request."""

    takes_json: ClassVar[bool] = True
    """Whether its bodies are JSON, so that the JSON limits apply."""

    takes_files: ClassVar[bool] = False
    """Whether a body may be a form or a file.

    If the body may also be JSON, `of_inputs` builds the request from a form or a file.
    """

    @cached_property
    def _v2(self) -> "InferenceDialect":
        """The V2 dialect, for bodies that are V2 requests."""
        inferring = (each for each in self.siblings if isinstance(each, InferenceDialect))
        return next(each for each in inferring if each.name == "v2")

    def of_json(self, admission: Admission, operation: Operation, body: JsonBody) -> "ParsedRequest":
        """Build a request from a body that another dialect has parsed. Raises InvalidRequest."""
        raise NotImplementedError

    def of_inputs(
        self, admission: Admission, operation: Operation, inputs: list[RequestInput]
    ) -> "ParsedRequest":
        """Build a request with these inputs, whose response has the format of this dialect."""
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
        """Parse a request, whose `body` is complete and decompressed. Raises InferstreamError.

        `admission` is for the model in the path. If the body names the model, `admission` is None and the
        dialect admits the request itself.
        """


class Events(Protocol):
    """Formats the responses of one stream as events."""

    def __call__(self, response: InferenceResponse) -> bytes | None:
        """Return the event for a response: empty to skip it, None if the client wants no more events."""

    def end(self) -> bytes:
        """Return the final events of a stream that succeeded."""


class Gathering(Protocol):
    """Collects the responses of a stream into one response."""

    def add(self, response: InferenceResponse) -> bool:
        """Add a response. Returns False if the client wants no more responses."""

    def end(self) -> tuple[RawHeaders, bytes]:
        """Return the content headers, as a new list, and the body of the response."""


class ParsedRequest(ABC):
    """A parsed request, and the format of its response."""

    __slots__ = ("admission", "operation", "request")

    admission: Admission
    operation: Operation
    request: InferenceRequest

    headers: RawHeaders = []
    """Additional response headers, for complete and streamed responses."""

    compressible = False
    """Whether a complete response may be compressed."""

    pending: "PendingPart | None" = None
    """The part to wait for before `open`, if any."""

    @staticmethod
    def sendable_headers(headers: Mapping[str, str]) -> RawHeaders:
        """Return the model's headers that can be sent, without headers that describe the message."""
        return select_sendable(headers.items())

    @property
    def media_type(self) -> bytes:
        """The media type of a stream."""
        return sse.CONTENT_TYPE

    @property
    def heartbeat(self) -> bytes:
        """The bytes to send while the model is silent. Empty if clients would parse them as a response."""
        return sse.HEARTBEAT

    def open(self) -> Awaitable[Reply]:
        """Open the reply to the request."""
        return self.admission.open(self.operation, self.request)

    @staticmethod
    def wrap_error(error: BaseException) -> InferstreamError:
        """Return an InferstreamError unchanged. Other errors are logged and replaced by one without details.

        Needed by requests whose response can contain errors of individual calls.
        """
        return wrap(error)

    def translate_error(self, error: InferstreamError) -> InferstreamError:
        """Return the error to send if the request fails before its response starts, if its status differs."""
        return error

    @property
    def is_streamed(self) -> bool:
        """Whether the client wants a stream instead of one response."""
        return self.gathering() is None

    def gathering(self) -> Gathering | None:
        """Return the collector for one complete response, or None if the client wants the stream."""
        return None

    @abstractmethod
    def response(self, response: InferenceResponse) -> tuple[RawHeaders, bytes]:
        """Return the content headers, as a new list, and the body of a complete response."""

    def events(self) -> Events:
        """Return the event format of one stream. Not called for requests without a stream."""
        raise NotImplementedError

    def failure(self, error: InferstreamError) -> bytes | None:
        """Return the event for an error, or None if the format has none, so that the stream is cut off.

        Not called for requests without a stream.
        """
        raise NotImplementedError


class GatheringRequest(ParsedRequest):
    """A request that collects its own responses into one."""

    __slots__ = ()

    @abstractmethod
    def add(self, response: InferenceResponse) -> bool:
        """Implement `Gathering.add`."""

    @abstractmethod
    def end(self) -> tuple[RawHeaders, bytes]:
        """Implement `Gathering.end`."""

    def gathering(self) -> Gathering | None:
        return self

    def response(self, response: InferenceResponse) -> tuple[RawHeaders, bytes]:
        self.add(response)
        return self.end()


class Route(NamedTuple):
    """The inference route of a path."""

    dialect: InferenceDialect
    operation: Operation
    model: str
    """The model in the path, or empty if the body names the model."""
    version: str | None
    template: str
    """The path pattern, for metrics and traces."""
    action: Action = Action.INFER

    @property
    def resumable(self) -> bool:
        """Whether a request may resume an earlier stream."""
        return self.operation is Operation.STREAM and self.dialect.resumable


class ReadRoute(NamedTuple):
    """The route of a path that is not an inference path."""

    path: str
    """The path pattern, for traces."""
    claim: "ReadClaim"
    dialect: HttpDialect
    model: str = ""
    version: str | None = None
    value: str = ""
    """The value of a placeholder that is not a model name."""
    body: bytes = b""
    """The decompressed JSON body, if the claim takes one."""

    def document(self) -> dict[str, Any]:
        """Parse the body as a JSON object, regardless of its content type. Raises InvalidRequest.

        Returns {} if the body is empty.
        """
        if not self.body.strip():
            return {}
        try:
            value = orjson.loads(self.body)
        except orjson.JSONDecodeError as error:
            raise InvalidRequest(describe_body(self.body, error)) from None
        if not isinstance(value, dict):
            raise InvalidRequest("The body must be a JSON object.")
        return value


Answer = tuple[int, RawHeaders, bytes]
"""Status, headers and body."""

Answering = Callable[
    [ReadRoute, Caller, Scope], Awaitable[tuple[int, RawHeaders, bytes | AsyncGenerator[bytes, None]]]
]
"""A handler that returns status, headers and body, complete or streamed, or raises an error."""


class ReadClaim(NamedTuple):
    """A path, its operation and its handler."""

    path: str
    action: Action
    respond: Answering
    methods: tuple[str, ...] | None = GET
    """The allowed methods, or None for all methods."""
    takes_body: bool = False
    """Whether the handler needs the request body."""
    gives_way: bool = False
    """Whether a plug-in dialect may claim the path instead. Only core claims may set this."""


def in_json(content: Any, status: int = 200) -> Answer:
    """Return a JSON response."""
    return status, [JSON], orjson.dumps(content)
