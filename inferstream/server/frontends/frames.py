"""The frames between the supervisor and its front ends: typed MessagePack, never pickle.

The reply to a frame with an `operation` is `Done` or `Counted` with the same number.
"""

from ...dataplane.workers.frames import Loaded
from ...processes.frames import Failure, Frame, Logged, Registered
from ...telemetry.access import AccessRecord
from ...telemetry.sums import Family


class Configure(Frame, tag=1):
    """The first frame: the settings as JSON, the index among `count` front ends, and the supervisor's ports.

    `code` names the folders from which every model may import.
    """

    settings: bytes
    index: int
    count: int
    ports: dict[str, int]
    code: list[str]
    reloads: bool = False
    """Whether models are reloaded when their files change."""


class Workers(Frame):
    """Where a model is loaded: the group of workers, their number, and what they reported of the model."""

    group: int
    size: int
    loaded: Loaded


class Prepare(Frame, tag=2):
    """Load a model or find it in its workers, without calls. `settings` is JSON."""

    operation: int
    model: int
    settings: bytes
    source: str | None
    workers: Workers | None


class Serve(Frame, tag=3):
    """Send a prepared model the calls of its name and version."""

    operation: int
    model: int


class Withdraw(Frame, tag=4):
    """Send a model no more calls, and release it when its calls are done."""

    operation: int
    model: int


class Tell(Frame, tag=5):
    """Whether the server is ready, and the names, versions and states of models that do not serve."""

    operation: int
    ready: bool
    states: list[tuple[str, str | None, str]]


class OpenPorts(Frame, tag=6):
    """Open the ports: every model that should serve does."""

    operation: int


class Drain(Frame, tag=7):
    """Refuse new calls, and end those in progress after `grace` seconds. Done when all have ended."""

    operation: int
    grace: float


class Shutdown(Frame, tag=8):
    """Close the ports, unload all models within `seconds`, and end the process."""

    operation: int
    seconds: float


class Retired(Frame, tag=9):
    """A worker gets no more calls."""

    worker: int


class Lost(Frame, tag=10):
    """A worker has ended; `how` says in which way."""

    worker: int
    how: str


class QueryResult(Frame, tag=11):
    """The result of a query."""

    question: int
    failure: Failure | None
    data: bytes = b""


class Ask(Frame, tag=13):
    """A question of another front end about a subject."""

    question: int
    subject: str
    text: str


class Count(Frame, tag=12):
    """Report the meters now."""

    operation: int


class Done(Frame, tag=20):
    """An operation is done, or has failed."""

    operation: int
    failure: Failure | None = None


class Released(Frame, tag=21):
    """Nothing uses this model any more."""

    model: int


class Query(Frame, tag=22):
    """What this front end needs of others: `load` or `unload` a model, `index`, `ready`, `metrics`, or an answer."""

    question: int
    what: str
    name: str = ""
    front_end: int | None = None
    """The front end that `name` is a question to, about the subject `what`; None for the supervisor's operations."""


class Counted(Frame, tag=23):
    """The meters of this process; operation 0 if the supervisor did not ask for them."""

    operation: int
    families: list[Family]


class Answered(Frame, tag=25):
    """The answer to a question of another front end."""

    question: int
    failure: Failure | None
    data: bytes = b""


class Replace(Frame, tag=24):
    """A worker has failed and must be replaced."""

    worker: int
    why: str


class SendRecords(Frame, tag=30):
    """Send the records of the access log from now on, or no longer."""

    on: bool


class Subscribed(Frame, tag=31):
    """The access log has a subscriber at this front end, or none any more."""

    on: bool


class Records(Frame, tag=32):
    """Records of another front end's access log, and how many were dropped."""

    records: list[AccessRecord]
    dropped: int


class WorkerConnection(Frame):
    """A connection to a worker of a group, sent together with its descriptors."""

    worker: int
    group: int
    pid: int


FrontEndOperation = Prepare | Serve | Withdraw | Tell | OpenPorts | Drain | Shutdown | Count

ToFrontEnd = Configure | FrontEndOperation | Retired | Lost | QueryResult | Ask | SendRecords | Records
ToSupervisor = (
    Done | Released | Query | Counted | Answered | Replace | Logged | Registered | Subscribed | Records
)
