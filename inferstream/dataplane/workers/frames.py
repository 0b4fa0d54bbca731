"""What the server and a worker tell each other: typed MessagePack, never pickle."""

from collections.abc import Mapping
from typing import Any

from ...handlers import CustomHandler, HttpRequest, HttpResponse
from ...processes.frames import Failure, Frame
from ...telemetry.queues import QueueChanges
from ...telemetry.steps import StepChanges
from ..checks import Strictness


class PackedTensor(Frame):
    """A tensor. `data` depends on `form`: the values, their raw bytes, or where in the arena those lie."""

    name: str
    shape: list[int]
    datatype: str
    form: int
    data: Any
    parameters: dict[str, Any] | None


class PackedRequest(Frame):
    """An inference request; `outputs` are pairs of name and parameters."""

    id: str | None
    parameters: dict[str, Any] | None
    inputs: list[PackedTensor]
    outputs: list[tuple[str, dict[str, Any] | None]] | None


class PackedResponse(Frame):
    """An inference response, checked by the worker's side."""

    model_name: str
    model_version: str | None
    id: str | None
    parameters: dict[str, Any] | None
    outputs: list[PackedTensor]


class Start(Frame, tag=1):
    """The first frame: how to log, and the server's name where requests are to have CloudEvents headers.

    `tracing` holds a collector's endpoint, and the name and version of the service that spans are of.
    `code` names the folders that every model may import from. `workers` share the processors.
    """

    debug: bool
    structured: bool
    logging: str | dict[str, Any] | None
    events: str | None = None
    tracing: tuple[str, str, str] | None = None
    code: list[str] = []
    workers: int = 1


class LoadInstance(Frame, tag=2):
    """Load a model; `settings` is JSON, `source` the file it came from."""

    instance: int
    settings: bytes
    source: str | None
    timeout: float


class UnloadInstance(Frame, tag=3):
    """Run a model's `unload` and forget it."""

    instance: int


class Open(Frame, tag=4):
    """Run a request; of a stream, send at most `window` responses ahead of what has been read.

    `trace` is the span it lies in, as headers.
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


class More(Frame, tag=5):
    """The next request of a bidirectional stream; None says that there are no more, a failure why."""

    call: int
    request: PackedRequest | None
    failure: Failure | None = None


class Credit(Frame, tag=6):
    """The reader has taken so many more responses."""

    call: int
    count: int


class Cancel(Frame, tag=7):
    """Nobody waits for this call any more; `expired` when its time is over."""

    call: int
    expired: bool = False


class Describe(Frame, tag=8):
    """Answer the metadata of a model."""

    call: int
    instance: int


class CallRoute(Frame, tag=26):
    """Answer a request to one of a model's own REST routes."""

    call: int
    instance: int
    request: HttpRequest


class RouteCalled(Frame, tag=27):
    """The response to that; the call has ended."""

    call: int
    response: HttpResponse


class Ping(Frame, tag=9):
    """Answer if the event loop still runs."""


class Stop(Frame, tag=10):
    """Unload everything and end, within `grace` seconds."""

    grace: float


class Free(Frame, tag=11):
    """Tensors at these places of the arena are no longer looked at. Both ways."""

    places: list[int]


class Loaded(Frame, tag=12):
    """A model is loaded; `signature` and `metadata` are JSON.

    `metadata` is None where the model's own code has to be asked for it.
    """

    instance: int
    signature: bytes
    capabilities: str
    slots: int
    routes: list[CustomHandler]
    strictness: Strictness
    metadata: bytes | None = None


class LoadFailed(Frame, tag=13):
    """A model did not load; the status is that of the model's own error."""

    instance: int
    message: str
    status_code: int | None = None


class Unloaded(Frame, tag=14):
    """A model is gone."""

    instance: int


class Readiness(Frame, tag=15):
    """The model's own `ready` has changed."""

    instance: int
    ready: bool


class Completed(Frame, tag=16):
    """The one response of a call, which has thereby ended."""

    call: int
    response: PackedResponse


class Item(Frame, tag=17):
    """One response of a stream."""

    call: int
    response: PackedResponse


class Ended(Frame, tag=18):
    """A stream, or a call that was cancelled, has ended; `lingering` when it still occupies a thread.

    Of what lingers the end is told a second time, when the thread is free.
    """

    call: int
    lingering: bool = False


class Failed(Frame, tag=19):
    """A call has ended with an error."""

    call: int
    failure: Failure


class Partly(Frame, tag=28):
    """A call has ended with errors of single rows, each a message and a status, and a response to the others."""

    call: int
    errors: dict[int, tuple[str, int]]
    response: PackedResponse | None


class Described(Frame, tag=20):
    """The metadata of a model as JSON; the call has ended."""

    call: int
    metadata: bytes


class Wanted(Frame, tag=21):
    """The model has taken so many more of the later requests."""

    call: int
    count: int


class Logged(Frame, tag=22):
    """Values that model code has logged as metrics."""

    model: str
    version: str
    values: dict[str, float]


class Registered(Frame, tag=23):
    """A metric that model code has registered."""

    name: str
    description: str


class Stepped(Frame, tag=29):
    """What the steps of a model have done since the last such frame."""

    instance: int
    changes: StepChanges


class Queued(Frame, tag=30):
    """What has become of calls of a model that waited in the worker since the last such frame."""

    instance: int
    changes: QueueChanges


class Pong(Frame, tag=24):
    """The event loop runs; other front ends wait for so many calls here."""

    others: int = 0


class Full(Frame, tag=25):
    """A stream is as far ahead of its reader as it may be, and waits for credit."""

    call: int


FromFrontEnd = Open | More | Credit | Cancel | Describe | CallRoute | Free
ToWorker = FromFrontEnd | Start | LoadInstance | UnloadInstance | Ping | Stop
FromWorker = (
    Loaded
    | LoadFailed
    | Unloaded
    | Readiness
    | Completed
    | Item
    | Ended
    | Failed
    | Partly
    | Described
    | RouteCalled
    | Wanted
    | Logged
    | Registered
    | Stepped
    | Queued
    | Pong
    | Full
    | Free
)
