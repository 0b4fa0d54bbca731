"""Authorization: every route, RPC and message calls `Authority.check`."""

from collections.abc import Awaitable, Callable, Collection, Iterable
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol, Self, TypeVar

from ..errors import InferstreamError, PermissionDenied
from ..extensions.discovery import plugins
from ..extensions.entries import ACTIONS, AUTHORITIES, SETTINGS, Plugin
from ..extensions.loading import check_authorities, leave_out, load_group
from ..settings import Settings
from ..settings.identity import is_loopback as is_loopback
from .caller import Caller, Name, Shown
from .local_clients import is_local_program

if TYPE_CHECKING:
    from ..concurrency.outgoing import ByteCount
    from .call import Call, Handler
    from .reply import Reply

evicts_var = ContextVar("inferstream_evicts", default=True)
"""Whether loads in this context may evict models.

Batches and shared calls use the value of their first caller.
"""

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False, slots=True)
class Action:
    """An operation that clients can request, such as an inference or a metrics scrape.

    Plug-ins define additional operations and list them in the `actions` field of their `Extension`.
    Operations that are not listed are denied.
    """

    HEALTH: ClassVar["Action"]
    PAGE: ClassVar["Action"]
    INFER: ClassVar["Action"]
    STREAM: ClassVar["Action"]
    CANCEL: ClassVar["Action"]
    RESUME: ClassVar["Action"]
    SERVER_METADATA: ClassVar["Action"]
    MODEL_METADATA: ClassVar["Action"]
    REPOSITORY_READ: ClassVar["Action"]
    REPOSITORY_WRITE: ClassVar["Action"]
    STATISTICS: ClassVar["Action"]
    METRICS: ClassVar["Action"]
    DOCUMENTATION: ClassVar["Action"]
    REFLECTION: ClassVar["Action"]
    CUSTOM_ROUTE: ClassVar["Action"]
    ACCESS_LOG: ClassVar["Action"]
    SETTINGS: ClassVar["Action"]

    name: str
    """The name in the audit log."""
    _: KW_ONLY
    scope: str | None
    """The scope that clients need for the operation. None if any valid credentials suffice."""
    closed: str = ""
    """If set, the operation is limited to loopback when credentials are off.

    The text is the subject of the error message, for example `The repository API`.
    """
    is_open: bool = False
    """Whether the operation is allowed without credentials, because its response is public."""

    def __repr__(self) -> str:
        return f"Action({self.name!r}, scope={self.scope!r})"

    @classmethod
    def list_all(cls, strict: bool = False) -> "list[Action]":
        """Return all operations of the core and of extensions.

        Invalid operations are skipped, or raise InvalidSettings if `strict`.
        """
        known = {each.name: each for each in vars(cls).values() if isinstance(each, Action)}
        for plugin, action in load_group(ACTIONS, strict):
            if not isinstance(action, Action):
                leave_out(plugin, f"it is a {type(action).__name__}, not an Action", strict)
            elif action.name in known:
                leave_out(plugin, f'there is an operation "{action.name}" already', strict)
            else:
                known[action.name] = action
        return [*known.values()]


Action.HEALTH = Action("health", scope=None, is_open=True)
Action.PAGE = Action("page", scope=None, is_open=True)
Action.INFER = Action("infer", scope="infer")
Action.STREAM = Action("stream", scope="stream")
Action.CANCEL = Action("cancel", scope=None)
Action.RESUME = Action("resume", scope=None)
Action.SERVER_METADATA = Action("server_metadata", scope=None)
Action.MODEL_METADATA = Action("model_metadata", scope=None)
Action.REPOSITORY_READ = Action("repository_read", scope="repository", closed="The repository API")
Action.REPOSITORY_WRITE = Action("repository_write", scope="repository", closed="The repository API")
Action.STATISTICS = Action("statistics", scope="metrics")
Action.METRICS = Action("metrics", scope="metrics")
Action.DOCUMENTATION = Action("documentation", scope="docs", closed="The documentation")
Action.REFLECTION = Action("reflection", scope="docs", closed="Reflection")
Action.CUSTOM_ROUTE = Action("custom_route", scope="infer")
Action.ACCESS_LOG = Action("access_log", scope="access", closed="The access log")
Action.SETTINGS = Action("settings", scope="access", closed="The API of log and trace settings")


class RequiredScopes(dict[Action, str | None]):
    """The scope that each registered operation needs, or None if any valid key suffices.

    Raises PermissionDenied for unregistered operations.
    """

    def __missing__(self, action: Action) -> NoReturn:
        raise unregistered_error(action)


def unregistered_error(action: Action) -> PermissionDenied:
    """Create the error for an operation that no extension lists."""
    return PermissionDenied(f'The operation "{action.name}" is not registered.')


class CallMeter(Protocol):
    """Meters and limits usage. `key` is the `key` of a `Caller`."""

    def open(
        self, handler: "Handler", call: "Call", caller: Caller, size: int, key: Any, priority: int
    ) -> "Awaitable[Reply]":
        """Open a call whose request has `size` bytes. `priority` is the model's default.

        Raises LimitExceeded or the handler's errors.
        """

    def record_rejection(self, operation: str, caller: Caller, model: str, error: BaseException) -> None:
        """Record a request that was rejected before it became a call."""

    def receive(self, key: Any, size: int, /) -> None:
        """Count the bytes of a later message of a request. Raises LimitExceeded."""

    def create_use(self, key: Any, /) -> "ByteCount":
        """Create a counter for response bytes, store it in `key.use`, and return it."""


class Authority:
    """Decides which operations clients may request.

    This default requires no credentials. If the server listens beyond loopback, operations that set `closed`
    are denied unless a setting allows them. A plug-in can provide a subclass in the `authority` field of its
    `Extension`, which is used if the settings enable it.
    """

    evicts: ClassVar = evicts_var
    """Whether loads in this context may evict other models from memory. `check` may set it."""

    requires_credentials = False
    """Whether clients must authenticate."""

    metrics_port_open = False
    """Whether the metrics port serves clients without credentials."""

    restricts: ClassVar[bool] = False
    """Whether the class overrides `check`, and may therefore deny more than the default.

    If so, errors do not list other models, and transports also check `Action.STREAM`, which the default class
    always allows.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.restricts = cls.check is not Authority.check

    shares_responses = True
    """Whether all clients share cached responses. If not, each principal has a separate cache."""

    metering: CallMeter | None = None
    """The usage meter, or None if usage is not metered."""

    read_gateway: Callable[[Caller], None] | None = None
    """Called with each caller of a model to read the headers of a trusted gateway. None if there is none."""

    shared: int | None = None
    """The file descriptor of shared memory that the first process created for the other front ends."""

    def __init__(self, settings: Settings, *, embedded: bool = False) -> None:
        """If `embedded`, the application controls access to the documentation and to reflection."""
        self.repository_open = settings.allow_open_repository is True or is_loopback(settings.host)
        self.calls_evict = settings.clients_may_evict is not False
        """Whether calls may evict models from memory, if `evicts` allows it."""
        actions = Action.list_all(settings.strict)
        left = (Action.DOCUMENTATION, Action.REFLECTION) if embedded else ()
        self.open = frozenset(action for action in actions if action.is_open)
        """Operations that are allowed without credentials."""
        self.scopes = RequiredScopes((action, action.scope) for action in actions)
        self._allowed = frozenset(
            action for action in actions if self.repository_open or not action.closed or action in left
        )
        self._local: Collection[Action] = ()
        """Operations that only clients on this machine may request."""
        if settings.allow_open_repository == "local":
            self._local = (Action.REPOSITORY_READ, Action.REPOSITORY_WRITE)

    @classmethod
    def of(
        cls, settings: Settings, *, embedded: bool, index: int, count: int, shared: int | None
    ) -> Self | None:
        """Create the authority for front end `index` of `count`. Returns None if the settings disable it.

        `shared` is the file descriptor that front end 0 created. Raises InvalidSettings.
        """
        return cls(settings, embedded=embedded)

    def check(self, action: Action, caller: Caller, model: str | None = None) -> None:
        """Authorize an operation, optionally on a model. Raises PermissionDenied or Unauthenticated.

        Subclasses that require credentials authenticate on each call and set the caller's `key` and
        `principal`. A revoked key therefore stops working after its current call, even on an open socket.
        """
        if action not in self._allowed and not (
            action in self._local and is_local_program(caller.peer, caller.headers.raw)
        ):
            error = unregistered_error(action)
            if action in self.scopes:
                error = PermissionDenied(
                    f"{action.closed} is closed because the server listens beyond loopback; "
                    "a key with its scope opens it, or the setting allow_open_repository."
                )
            self.record_rejection(action.name, caller, model or "", error)
            raise error

    def sees(self, caller: Caller, model: str) -> bool:
        """Whether lists of models for a caller may include this one.

        Callers without a `key` see the models whose metadata they may read.
        """
        if caller.key is not None:
            return caller.key.sees(model)
        if self.restricts:
            try:
                self.check(Action.MODEL_METADATA, caller, model)
            except InferstreamError:
                return False
        return True

    def split(self, raw: Iterable[tuple[Name, Name]]) -> tuple[Iterable[tuple[Name, Name]], Shown | None]:
        """Split the headers of a request into public headers and headers with credentials.

        Used by transports that cache parsed headers. For other transports, `check` splits the headers of each
        `Caller`.
        """
        return raw, None

    def record_rejection(self, operation: str, caller: Caller, model: str, error: BaseException) -> None:
        """Record a request that was rejected before it became a call. Called once per error."""

    def may_evict(self, caller: Caller) -> bool:
        """Whether loads and `keep_alive` of this caller may affect which models are in memory."""
        return self.calls_evict

    def rate_limits(self, caller: Caller) -> dict[str, str]:
        """Return the values of the `x-ratelimit-*` headers for a caller. Empty if there are no limits."""
        return {}

    async def run(
        self,
        action: Action,
        caller: Caller,
        model: str,
        work: Callable[[], Awaitable[Result]],
        size: int = 0,
    ) -> Result:
        """Run an operation other than an inference within the caller's limits.

        `size` is the size of the request in bytes. Raises LimitExceeded.
        """
        return await work()

    def start(self) -> None:
        """Start background tasks on the running event loop."""

    def forget(self, index: int) -> None:
        """Release the calls in progress of a front end that has exited, before its index is reused."""

    async def close(self) -> None:
        """Save state and close. No more calls follow."""


def build_authority(
    settings: Settings,
    *,
    embedded: bool = False,
    index: int = 0,
    count: int = 1,
    shared: int | None = None,
) -> Authority:
    """Create the authority that the settings enable, or the default one.

    See `Authority.of` for the arguments.

    Raises InvalidSettings, even in non-strict mode, if the settings enable two authorities or if an authority
    is unusable. Unless the server is local, this includes extensions that failed to load and may define one.
    """
    check_authorities(settings.is_local)
    authority: Authority | None = None
    for plugin, kind in load_group(AUTHORITIES, strict=True):
        if not (isinstance(kind, type) and issubclass(kind, Authority)):
            raise plugin.build_startup_error("it is not a subclass of Authority")
        _check_section(plugin, settings)
        try:
            another = kind.of(settings, embedded=embedded, index=index, count=count, shared=shared)
        except InferstreamError:
            raise
        except Exception as error:
            if plugin.ours:
                raise
            raise plugin.build_startup_error(error) from error
        if another is not None:
            if authority is not None:
                raise plugin.build_error("the settings turn on another authority as well")
            authority = another
    return authority or Authority(settings, embedded=embedded)


def _check_section(authority: Plugin, settings: Settings) -> None:
    """Raise InvalidSettings if the section that an authority depends on is missing from the settings."""
    section = plugins(SETTINGS).get(authority.extension)
    if section is None:
        return
    try:
        joined = isinstance(settings, section.load())
    except (Exception, SystemExit) as error:
        raise section.build_startup_error(error) from None
    if not joined:
        raise section.build_startup_error("it is not part of the settings")
