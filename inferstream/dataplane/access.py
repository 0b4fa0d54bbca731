"""Who may do what: every route, RPC and message asks `Authority.check`."""

from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol, Self, TypeVar

from ..errors import InferstreamError, PermissionDenied
from ..extensions import ACTIONS, AUTHORITIES, SETTINGS, Plugin, check_authorities, leave_out, loaded, plugins
from ..settings import Settings
from ..settings.served import is_loopback as is_loopback
from .caller import Caller, Name, Shown

if TYPE_CHECKING:
    from ..concurrency.outgoing import ByteCount
    from .call import Call, Handler
    from .reply import Reply

evicts_var = ContextVar("inferstream_evicts", default=True)
"""Whether a load in this context may make other models leave. Batches and shared calls have the first caller's."""

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False, slots=True)
class Action:
    """An operation that clients ask for, which a path or an RPC names.

    A plug-in defines its own, and lists them in the field `actions` of its `Extension`. Others are refused.
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
    SHARED_MEMORY: ClassVar["Action"]
    ACCESS_LOG: ClassVar["Action"]
    SETTINGS: ClassVar["Action"]

    name: str
    """As the audit log has it."""
    _: KW_ONLY
    scope: str | None
    """The scope that a client needs for it; None if each client with valid credentials may ask for it."""
    closed: str = ""
    """The subject of the refusal, if without credentials only this machine may ask for it."""
    is_open: bool = False
    """Whether it needs no credentials, because its response is public."""

    def __repr__(self) -> str:
        return f"Action({self.name!r}, scope={self.scope!r})"

    @classmethod
    def registered(cls, strict: bool = False) -> "list[Action]":
        """The operations of the core and of extensions. Raises InvalidSettings if `strict` for one that is unusable."""
        known = {each.name: each for each in vars(cls).values() if isinstance(each, Action)}
        for plugin, action in loaded(ACTIONS, strict):
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
Action.SHARED_MEMORY = Action("shared_memory", scope="infer")
Action.ACCESS_LOG = Action("access_log", scope="access", closed="The access log")
Action.SETTINGS = Action("settings", scope="access", closed="The API of log and trace settings")


class RequiredScopes(dict[Action, str | None]):
    """The scope that each registered operation needs; None if every valid key has it.

    Raises PermissionDenied for an operation that is not registered.
    """

    def __missing__(self, action: Action) -> NoReturn:
        raise unregistered(action)


def unregistered(action: Action) -> PermissionDenied:
    """The refusal of an operation that no extension lists."""
    return PermissionDenied(f'The operation "{action.name}" is not registered.')


class CallMeter(Protocol):
    """Counts and limits what clients use. A `key` is that of a `Caller`."""

    def open(
        self, handler: "Handler", call: "Call", caller: Caller, size: int, key: Any, priority: int
    ) -> "Awaitable[Reply]":
        """Open a call, whose request has `size` bytes. `priority` is the model's default.

        Raises LimitExceeded, and the errors of the handler.
        """

    def refused(self, operation: str, caller: Caller, model: str, error: BaseException) -> None:
        """Record a refusal before there was a call."""

    def receive(self, key: Any, size: int, /) -> None:
        """Count the bytes of a later message of a request. Raises LimitExceeded."""

    def use_of(self, key: Any, /) -> "ByteCount":
        """Where the bytes of responses count. It is `key.use` from now on."""


class Authority:
    """Decides which operations clients may ask for.

    This one needs no credentials. Beyond loopback, operations that are `closed` are refused unless a setting opens
    them. A plug-in has a subclass in the field `authority` of its `Extension`, which the settings turn on.
    """

    evicts: ClassVar = evicts_var
    """Whether loads in this context may make other models leave memory. `check` may set it."""

    requires_credentials = False
    """Whether clients must authenticate."""

    restricts: ClassVar[bool] = False
    """Whether the class has a `check` of its own, which may allow less than this one.

    Then errors name no other models, and doors ask for what this one allows to all who may ask for an inference.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.restricts = cls.check is not Authority.check

    shares_responses = True
    """Whether all clients share cached responses; otherwise each principal has its own."""

    metering: CallMeter | None = None
    """None if nothing is counted."""

    read_gateway: Callable[[Caller], None] | None = None
    """Reads the headers of a trusted gateway, for each caller of a model. None if no gateway is trusted."""

    shared: int | None = None
    """The descriptor of memory that the authority of the first process created for the other front ends."""

    def __init__(self, settings: Settings, *, embedded: bool = False) -> None:
        """`embedded`: the program that embeds the application decides who may read its documentation."""
        self.repository_open = settings.allow_open_repository or is_loopback(settings.host)
        self.calls_evict = settings.clients_may_evict is not False
        """Whether calls may make other models leave memory, if `evicts` allows it."""
        actions = Action.registered(settings.strict)
        left = (Action.DOCUMENTATION, Action.REFLECTION) if embedded else ()
        self.open = frozenset(action for action in actions if action.is_open)
        """Operations that everybody may ask for."""
        self.scopes = RequiredScopes((action, action.scope) for action in actions)
        self._allowed = frozenset(
            action for action in actions if self.repository_open or not action.closed or action in left
        )

    @classmethod
    def of(
        cls, settings: Settings, *, embedded: bool, index: int, count: int, shared: int | None
    ) -> Self | None:
        """The authority for these settings in the front end `index` of `count`; None if they turn it off.

        `shared` is the descriptor that front end 0 created. Raises InvalidSettings.
        """
        return cls(settings, embedded=embedded)

    def check(self, action: Action, caller: Caller, model: str | None = None) -> None:
        """Raise PermissionDenied if this caller may not do this, or not to this model; Unauthenticated.

        It authenticates each time, so that a revoked key ends with its current call, also on an open socket, and sets
        the caller's `key` and `principal` if it requires credentials.
        """
        if action not in self._allowed:
            error = unregistered(action)
            if action in self.scopes:
                error = PermissionDenied(
                    f"{action.closed} is closed because the server listens beyond loopback; "
                    "a key with its scope opens it, or the setting allow_open_repository."
                )
            self.refused(action.name, caller, model or "", error)
            raise error

    def sees(self, caller: Caller, model: str) -> bool:
        """Whether lists of models name this one to a caller: one without a `key` sees what it may read metadata of."""
        if caller.key is not None:
            return caller.key.sees(model)
        if self.restricts:
            try:
                self.check(Action.MODEL_METADATA, caller, model)
            except InferstreamError:
                return False
        return True

    def split(self, raw: Iterable[tuple[Name, Name]]) -> tuple[Iterable[tuple[Name, Name]], Shown | None]:
        """The headers of a request, for doors that remember heads: `check` does it for each `Caller` without."""
        return raw, None

    def refused(self, operation: str, caller: Caller, model: str, error: BaseException) -> None:
        """Record a refusal before there was a call, once for each error."""

    def may_evict(self, caller: Caller) -> bool:
        """Whether loads and `keep_alive` of this caller may decide which models are in memory."""
        return self.calls_evict

    def rate_limits(self, caller: Caller) -> dict[str, str]:
        """The values of `x-ratelimit-*` for a caller; none without limits."""
        return {}

    async def run(
        self,
        action: Action,
        caller: Caller,
        model: str,
        work: Callable[[], Awaitable[Result]],
        size: int = 0,
    ) -> Result:
        """Run an operation other than an inference, within the limits of the caller. Raises LimitExceeded."""
        return await work()

    def start(self) -> None:
        """Begin what runs beside the requests, on the running event loop."""

    def forget(self, index: int) -> None:
        """End the calls of a front end that has ended, before another one gets its index."""

    async def close(self) -> None:
        """Save and close. There are no more calls."""


def build_authority(
    settings: Settings,
    *,
    embedded: bool = False,
    index: int = 0,
    count: int = 1,
    shared: int | None = None,
) -> Authority:
    """The authority of an extension that the settings turn on, or the default one. The arguments are those of `of`.

    Raises InvalidSettings for two, and even if the settings are not strict for an authority that cannot be used and
    for an extension that is left out and may have one.
    """
    check_authorities(settings.is_local)
    authority: Authority | None = None
    for plugin, kind in loaded(AUTHORITIES, strict=True):
        if not (isinstance(kind, type) and issubclass(kind, Authority)):
            raise plugin.guard_refusal("it is not a subclass of Authority")
        _check_section(plugin, settings)
        another = kind.of(settings, embedded=embedded, index=index, count=count, shared=shared)
        if another is not None:
            if authority is not None:
                raise plugin.refusal("the settings turn on another authority as well")
            authority = another
    return authority or Authority(settings, embedded=embedded)


def _check_section(authority: Plugin, settings: Settings) -> None:
    """Raise InvalidSettings if the settings that turn on an authority have not joined those of the server."""
    section = plugins(SETTINGS).get(authority.extension)
    if section is None:
        return
    try:
        joined = isinstance(settings, section.load())
    except (Exception, SystemExit) as error:
        raise section.guard_refusal(error) from None
    if not joined:
        raise section.guard_refusal("it is not part of the settings")
