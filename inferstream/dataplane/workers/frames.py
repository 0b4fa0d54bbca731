"""The frames between the server and a worker: typed MessagePack, never pickle."""

from collections.abc import Mapping
from typing import Any

from ...handlers import CustomHandler, HttpRequest
from ...processes.frames import Failure, Frame, Part, Query
from ...telemetry.meter_set import Changes
from ...types.forms import OutputForm
from ..checks import Strictness
from ..execution.base import Capabilities

MOST_FORMS = 1024
"""Forms that each side of a link remembers. Both forget all of them before one more, so that loads do not add up."""


class PackedTensor(Part):
    """A tensor. By `form`, `data` holds the values, their raw bytes, or their place in the arena."""

    name: str
    shape: list[int]
    datatype: str
    form: int
    data: Any
    parameters: dict[str, Any] | None


class PackedRequest(Part):
    """An inference request; `outputs` are pairs of name and parameters."""

    id: str | None
    parameters: dict[str, Any] | None
    inputs: list[PackedTensor]
    outputs: list[tuple[str, dict[str, Any] | None]] | None


class PackedResponse(Part):
    """An inference response, which the worker has checked."""

    model_name: str
    model_version: str | None
    id: str | None
    parameters: dict[str, Any] | None
    outputs: list[PackedTensor]


class Start(Frame):
    """The first frame.

    `edges` are subclasses of `WorkerEdge`, as `module:object`, with what each gets. `code` has the folders that every
    model may import from. `workers` share the processors.
    """

    debug: bool
    structured: bool
    logging: str | dict[str, Any] | None
    edges: dict[str, Any] = {}
    code: list[str] = []
    workers: int = 1
    keep_freed_memory: bool = False
    shows_errors: bool = False
    """Whether developers see exceptions, so that failures carry them."""
    turns: str = ""
    """The class of `Turns`, as `module:object`; empty for none."""


class Loaded(Part):
    """A model is loaded. `signature` and `metadata` are JSON; the latter is None if the model's own code makes it.

    `configuration` is that of the settings, with what the model's code has completed.
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
    """Load a model. `settings` is JSON, `source` its settings file."""

    instance: int
    settings: bytes
    source: str | None
    timeout: float


class UnloadInstance(Query[None]):
    instance: int


class Open(Frame):
    """Run a request, for a stream at most `window` responses ahead of its reader. `trace` has its span's headers.

    `request_id` is the X-Request-Id of the client's request.
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
    """As of the call."""
    values: dict[str, Any] | None = None
    """What plug-ins keep with the call, by name."""
    principal: str | None = None
    """The principal of the call."""


class More(Frame):
    """The next request of a bidirectional stream. None ends it, with `failure` after an error."""

    call: int
    request: PackedRequest | None
    failure: Failure | None = None


class Credit(Frame):
    """The reader has taken `count` more responses."""

    call: int
    count: int


class Cancel(Frame):
    """The call has no caller any more; `expired` after its deadline."""

    call: int
    expired: bool = False


class Describe(Query[bytes]):
    """The answer is the metadata of a model as JSON."""

    instance: int


class RouteResponse(Part):
    """The response of a route. If `more`, its front end reads the rest of the body."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    more: bool


class CallRoute(Query[RouteResponse]):
    """A request to a REST route of a model. The front end numbers it in `exchange`."""

    instance: int
    exchange: int
    request: HttpRequest


class ReadBody(Query[bytes]):
    """The next bytes of a response body; empty at the end."""

    exchange: int


class LeaveRoute(Frame):
    """Nobody reads the response of this exchange any more."""

    exchange: int


class Ping(Query[int]):
    """A check that the event loop runs. The answer counts the calls of other front ends."""


class Stop(Frame):
    """Unload everything and end within `grace` seconds."""

    grace: float


class Free(Frame):
    """Tensors at these places of the arena are no longer used. Both ways."""

    places: list[int]


class Unloaded(Frame):
    """Tells a front end that the supervisor unloads a model."""

    instance: int


class Readiness(Frame):
    """The model's `ready`, or the number of calls that it takes at once, has changed."""

    instance: int
    ready: bool
    slots: int


class Item(Frame):
    """A response; `last` for the only one of a call, which ends it."""

    call: int
    response: PackedResponse
    last: bool = False


class Form(Frame):
    """The form of values that follow, sent once to each front end."""

    number: int
    form: OutputForm


class ItemOf(Frame):
    """A response that is one value of the form of a number; `last` as in `Item`.

    `halved`: the value is a string with an unpaired surrogate, encoded as UTF-16 (little endian).
    """

    call: int
    form: int
    value: Any
    last: bool = False
    halved: bool = False


class Ended(Frame):
    """A stream or cancelled call has ended. `lingering`: it occupies a thread, and a second frame follows."""

    call: int
    lingering: bool = False


class Failed(Frame):
    call: int
    failure: Failure


class Partly(Frame):
    """A call has ended with errors of single rows (message and status), and a response to the others."""

    call: int
    errors: dict[int, tuple[str, int]]
    response: PackedResponse | None


class Wanted(Frame):
    """The model has taken `count` more of the later requests."""

    call: int
    count: int


class MeterChanges(Frame):
    """Changes of a model's meters in the worker since the last such frame."""

    instance: int
    meters: str
    changes: Changes


class Full(Frame):
    """A stream is as far ahead of its reader as allowed, and waits for credit."""

    call: int
