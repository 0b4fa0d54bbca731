"""Frames between the server and its workers: typed MessagePack, never pickle."""

from collections.abc import Mapping
from typing import Any

from ...handlers import CustomHandler, HttpRequest
from ...processes.frames import Failure, Frame, Part, Query
from ...telemetry.meter_set import Changes
from ...types.forms import OutputForm
from ..checks import Strictness
from ..execution.base import Capabilities

MAX_FORMS = 1024
"""Maximum number of forms that both ends of a link remember. Beyond that, both forget all of them.

This bounds the memory when models are loaded repeatedly.
"""


class PackedTensor(Part):
    """A tensor. Depending on `form`, `data` contains values, raw bytes, or a place in shared memory."""

    name: str
    shape: list[int]
    datatype: str
    form: int
    data: Any
    parameters: dict[str, Any] | None


class PackedRequest(Part):
    """An inference request. `outputs` are pairs of a name and parameters."""

    id: str | None
    parameters: dict[str, Any] | None
    inputs: list[PackedTensor]
    outputs: list[tuple[str, dict[str, Any] | None]] | None


class PackedResponse(Part):
    """An inference response, which the worker has validated."""

    model_name: str
    model_version: str | None
    id: str | None
    parameters: dict[str, Any] | None
    outputs: list[PackedTensor]


class Start(Frame):
    """The first frame to a worker.

    `edges` maps `WorkerEdge` subclasses (`module:object`) to their arguments. `code` lists folders that every
    model may import from. `workers` is the number of workers that share the CPUs.
    """

    log_level: str
    structured: bool
    logging: str | dict[str, Any] | None
    edges: dict[str, Any] = {}
    code: list[str] = []
    workers: int = 1
    keep_freed_memory: bool = False
    shows_errors: bool = False
    """Whether failures include the exception, for developers."""
    turns: str = ""
    """The class of `Turns` as `module:object`, or an empty string."""
    trusted: list[str] | None = None
    """The list of trusted runtimes, or None without one."""


class Loaded(Part):
    """The result of loading a model.

    `signature` and `metadata` are JSON. `metadata` is None if the model computes it. `configuration` is the
    configuration of the settings, including values that the model's code has completed.
    """

    instance: int
    signature: bytes
    capabilities: Capabilities
    slots: int
    routes: list[CustomHandler]
    strictness: Strictness
    metadata: bytes | None = None
    configuration: Mapping[str, Any] = {}


class LoadInstance(Query[Loaded]):
    """Load a model. `settings` is JSON, and `source` is the path of its settings file."""

    instance: int
    settings: bytes
    source: str | None
    timeout: float


class UnloadInstance(Query[None]):
    instance: int


class Open(Frame):
    """Start a call. A stream may be up to `window` responses ahead of its reader.

    `trace` contains the headers of the tracing span. `request_id` is the client's X-Request-Id.
    """

    call: int
    instance: int
    stream: bool
    window: int
    more: bool
    remaining: float | None
    priority: int
    request: PackedRequest
    trace: Mapping[str, str] | None = None
    request_id: str = ""
    halved: bool = False
    """See `Call.halved`."""
    values: dict[str, Any] | None = None
    """Values that plug-ins attached to the call, by name."""
    principal: str | None = None
    """The principal of the call."""


class More(Frame):
    """The next request of a bidirectional stream. None marks the end, with `failure` after an error."""

    call: int
    request: PackedRequest | None
    failure: Failure | None = None


class Credit(Frame):
    """The reader has consumed `count` more responses."""

    call: int
    count: int


class Cancel(Frame):
    """The caller has left, or the deadline has passed (`expired`)."""

    call: int
    expired: bool = False


class Describe(Query[bytes]):
    """Request the metadata of a model as JSON."""

    instance: int


class RouteResponse(Part):
    """The response of a route. If `more` is set, the front end reads the rest of the body."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    more: bool


class CallRoute(Query[RouteResponse]):
    """A request to a REST route of a model. `exchange` is a number that the front end chooses."""

    instance: int
    exchange: int
    request: HttpRequest


class ReadBody(Query[bytes]):
    """Request the next bytes of a response body. Empty at the end."""

    exchange: int


class LeaveRoute(Frame):
    """The reader of this exchange has left."""

    exchange: int


class Ping(Query[int]):
    """Check that the event loop is responsive. Returns the number of calls of other front ends."""


class Stop(Frame):
    """Unload everything and exit within `grace` seconds."""

    grace: float


class Free(Frame):
    """Release tensors at these places in shared memory. Sent in both directions."""

    places: list[int]


class Unloaded(Frame):
    """Notify a front end that the supervisor is unloading a model."""

    instance: int


class Readiness(Frame):
    """The model's `ready`, or its number of concurrent calls, has changed."""

    instance: int
    ready: bool
    slots: int


class Item(Frame):
    """A response. If `last`, it is the only response of its call and ends the call."""

    call: int
    response: PackedResponse
    last: bool = False


class Form(Frame):
    """The form of the values in later frames. Sent once to each front end."""

    number: int
    form: OutputForm


class ItemOf(Frame):
    """A response that consists of one value. `form` is the number of its form. `last` is as in `Item`.

    If `halved`, the value is a string with an unpaired surrogate, encoded as UTF-16 (little endian).
    """

    call: int
    form: int
    value: Any
    last: bool = False
    halved: bool = False


class Ended(Frame):
    """A stream or cancelled call has ended. If `lingering`, its thread is still busy, and another frame follows."""

    call: int
    lingering: bool = False


class Failed(Frame):
    call: int
    failure: Failure


class Partly(Frame):
    """The call has ended with errors for some rows (message and status), and a response for the others."""

    call: int
    errors: dict[int, tuple[str, int]]
    response: PackedResponse | None


class Wanted(Frame):
    """Request `count` more requests of a bidirectional stream."""

    call: int
    count: int


class MeterChanges(Frame):
    """Changes in the meters of a model in the worker since the previous frame."""

    instance: int
    meters: str
    changes: Changes


class Full(Frame):
    """A stream has reached its window, and waits for credit."""

    call: int
