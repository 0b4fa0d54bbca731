"""The frames between the supervisor and the front-end processes: typed MessagePack, never pickle."""

from collections.abc import Sequence
from typing import Any

from ...dataplane.peers import PackedQuestion
from ...dataplane.workers.frames import Loaded
from ...processes.frames import Frame, Part, Query
from ...telemetry.access import AccessRecord
from ...telemetry.families import Family


class Configure(Frame):
    """The first frame: the settings as JSON, the index out of `count` front ends, and the supervisor's ports.

    `code` lists the folders that every model may import from.
    """

    settings: bytes
    index: int
    count: int
    ports: dict[str, int]
    code: list[str]
    questions: Sequence[str]
    """The names of the question types that front ends send each other. A type's number is its position."""
    reloads: bool = False
    """Whether models are reloaded when their files change."""
    trusted: list[str] | None = None
    """The list of trusted runtimes, or None without one."""


class Workers(Part):
    """The workers that run a model: the group, the number of workers, and the model's load report."""

    group: int
    size: int
    loaded: Loaded


class Prepare(Query[None]):
    """Load a model, or attach it to its workers, but do not route calls to it. `settings` is JSON."""

    model: int
    settings: bytes
    source: str | None
    workers: Workers | None


class Serve(Query[None]):
    """Route calls for a prepared model's name and version to this model."""

    model: int


class Withdraw(Query[None]):
    """Stop routing calls to a model, and release it once its calls in progress finish."""

    model: int


class Release(Query[None]):
    """Wait until the front end has released this model."""

    model: int


class Tell(Query[None]):
    """The readiness of the server, and the name, version and state of each model that is not serving."""

    ready: bool
    states: list[tuple[str, str | None, str]]
    leaving: bool
    """Whether the server is about to stop."""


class OpenPorts(Query[None]):
    """Open the ports, because every expected model is serving."""


class Drain(Query[None]):
    """Reject new calls, and cancel calls in progress after `grace` seconds. Completes when none are left."""

    grace: float


class Shutdown(Frame):
    """Close the ports, unload all models within `seconds`, and exit."""

    seconds: float


class Retired(Frame):
    """Stop sending calls to a worker."""

    worker: int


class Lost(Frame):
    """A worker has exited. `how` describes the exit.

    `starved` is true if the kernel killed the worker because memory ran out.
    """

    worker: int
    how: str
    starved: bool = False


class Count(Query[list[Family]]):
    """Return the current metrics."""


class LoadVersions(Query[None]):
    """Load or reload every version of a model in the repository."""

    name: str


class UnloadVersions(Query[bool]):
    """Unload every version of a model. Returns whether one was loaded."""

    name: str


class ListModels(Query[bytes]):
    """Return the list of models as JSON. If `ready` is true, list only models that are ready."""

    ready: bool


class SumMeters(Query[bytes]):
    """Return the metrics of all front ends, summed, in the Prometheus text format."""


class Forward(Query[Any]):
    """Forward a question to front end `to`."""

    to: int
    question: PackedQuestion


class Counted(Frame):
    """The metrics of this process, sent without a request."""

    families: list[Family]


class Replace(Frame):
    """A worker has failed and must be replaced."""

    worker: int
    why: str


class SendRecords(Frame):
    """Start or stop sending the records of the access log."""

    on: bool


class Subscribed(Frame):
    """This front end gained its first subscriber to the access log, or lost its last one."""

    on: bool


class Records(Frame):
    """Access records of another front end, and the number of dropped records."""

    records: list[AccessRecord]
    dropped: int


class WorkerConnection(Part):
    """A connection to a worker of a group, sent together with its file descriptors."""

    worker: int
    group: int
    pid: int
