"""The frames between the supervisor and its front ends: typed MessagePack, never pickle."""

from collections.abc import Sequence
from typing import Any

from ...dataplane.peers import PackedQuestion
from ...dataplane.workers.frames import Loaded
from ...processes.frames import Frame, Part, Query
from ...telemetry.access import AccessRecord
from ...telemetry.families import Family


class Configure(Frame):
    """The first frame: the settings as JSON, the index among `count` front ends, and the supervisor's ports.

    `code` names the folders from which every model may import.
    """

    settings: bytes
    index: int
    count: int
    ports: dict[str, int]
    code: list[str]
    questions: Sequence[str]
    """The names of the kinds of questions between front ends, by their numbers."""
    reloads: bool = False
    """Whether models are reloaded when their files change."""


class Workers(Part):
    """Where a model is loaded: the group of workers, their number, and what they reported of the model."""

    group: int
    size: int
    loaded: Loaded


class Prepare(Query[None]):
    """Load a model or find it in its workers, without calls. `settings` is JSON."""

    model: int
    settings: bytes
    source: str | None
    workers: Workers | None


class Serve(Query[None]):
    """Send a prepared model the calls of its name and version."""

    model: int


class Withdraw(Query[None]):
    """Send a model no more calls, and release it when its calls are done."""

    model: int


class Release(Query[None]):
    """The answer comes when nothing uses this model any more."""

    model: int


class Tell(Query[None]):
    """Whether the server is ready, and the names, versions and states of models that do not serve."""

    ready: bool
    states: list[tuple[str, str | None, str]]
    leaving: bool
    """Whether the server is about to stop."""


class OpenPorts(Query[None]):
    """Open the ports: every model that should serve does."""


class Drain(Query[None]):
    """Refuse new calls, and end those in progress after `grace` seconds. Done when all have ended."""

    grace: float


class Shutdown(Frame):
    """Close the ports, unload all models within `seconds`, and end the process."""

    seconds: float


class Retired(Frame):
    """A worker gets no more calls."""

    worker: int


class Lost(Frame):
    """A worker has ended; `how` says in which way. The kernel killed a `starved` one for lack of memory."""

    worker: int
    how: str
    starved: bool = False


class Count(Query[list[Family]]):
    """Report the meters now."""


class LoadVersions(Query[None]):
    """Load a model of the repository."""

    name: str


class UnloadVersions(Query[bool]):
    """Unload a model; the answer is whether it was loaded."""

    name: str


class ListModels(Query[bytes]):
    """The answer is the list of models, or of the ready ones, as JSON."""

    ready: bool


class SumMeters(Query[bytes]):
    """The answer is the sum of the meters of all front ends, in Prometheus' text format."""


class Forward(Query[Any]):
    """A question to the front end `to`."""

    to: int
    question: PackedQuestion


class Counted(Frame):
    """The meters of this process, without a question for them."""

    families: list[Family]


class Replace(Frame):
    """A worker has failed and must be replaced."""

    worker: int
    why: str


class SendRecords(Frame):
    """Send the records of the access log from now on, or no longer."""

    on: bool


class Subscribed(Frame):
    """The access log has a subscriber at this front end, or none any more."""

    on: bool


class Records(Frame):
    """Records of another front end's access log, and how many were dropped."""

    records: list[AccessRecord]
    dropped: int


class WorkerConnection(Part):
    """A connection to a worker of a group, sent together with its descriptors."""

    worker: int
    group: int
    pid: int
