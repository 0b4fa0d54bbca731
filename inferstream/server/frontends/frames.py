"""What the leader and its followers tell each other: typed MessagePack, never pickle.

Frames with an `operation` are answered by `Done`, or `Counted`, with the same number.
"""

from ...dataplane.workers.frames import Loaded
from ...processes.frames import Failure, Frame, Logged, Registered
from ...telemetry.sums import Family


class Configure(Frame, tag=1):
    """The first frame: the whole settings as JSON, which of `count` front ends this is, and the leader's ports.

    `code` names the folders that every model may import from.
    """

    settings: bytes
    index: int
    count: int
    ports: dict[str, int]
    code: list[str]


class Workers(Frame):
    """Where a model has been loaded: the instance in a group of so many workers, and what it said of itself."""

    group: int
    size: int
    loaded: Loaded


class Prepare(Frame, tag=2):
    """Load a model, or find it in the workers that have it, and give it no calls yet. `settings` is JSON."""

    operation: int
    model: int
    settings: bytes
    source: str | None
    workers: Workers | None


class Serve(Frame, tag=3):
    """Give a model that is prepared the calls of its name and version."""

    operation: int
    model: int


class Withdraw(Frame, tag=4):
    """Give a model no more calls, and let go of it when those it has are done."""

    operation: int
    model: int


class Tell(Frame, tag=5):
    """Whether the server is ready, and the names, versions and states of models that do not serve."""

    operation: int
    ready: bool
    states: list[tuple[str, str | None, str]]


class OpenPorts(Frame, tag=6):
    """Take the ports, once every model that should serve does."""

    operation: int


class Drain(Frame, tag=7):
    """Refuse new calls; answered when those in progress have ended, of which none outlives `grace` seconds."""

    operation: int
    grace: float


class Shutdown(Frame, tag=8):
    """Close the ports, unload everything within these seconds, and end."""

    operation: int
    seconds: float


class Retired(Frame, tag=9):
    """A worker gets no more calls."""

    worker: int


class Lost(Frame, tag=10):
    """A worker has ended, in this way."""

    worker: int
    how: str


class QueryResult(Frame, tag=11):
    """The answer to a question."""

    question: int
    failure: Failure | None
    data: bytes = b""


class Count(Frame, tag=12):
    """Say your numbers now."""

    operation: int


class Done(Frame, tag=20):
    """An operation is done, or has failed."""

    operation: int
    failure: Failure | None = None


class Released(Frame, tag=21):
    """Nothing holds on to this model any more."""

    model: int


class Query(Frame, tag=22):
    """Do what a client has asked of this front end: `load` or `unload` a model, `index`, `ready` or `metrics`."""

    question: int
    what: str
    name: str = ""


class Counted(Frame, tag=23):
    """The numbers of this process; of operation 0 when nobody has asked."""

    operation: int
    families: list[Family]


class Replace(Frame, tag=24):
    """A worker is of no use any more."""

    worker: int
    why: str


class WorkerConnection(Frame):
    """Comes with the descriptors of a way to a worker of a group."""

    worker: int
    group: int
    pid: int


FollowerOperation = Prepare | Serve | Withdraw | Tell | OpenPorts | Drain | Shutdown | Count

ToFollower = Configure | FollowerOperation | Retired | Lost | QueryResult
FollowerFrame = Done | Released | Query | Counted | Replace | Logged | Registered
