"""The one question whether a caller may do something: every route, RPC and message asks `Access.check`."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from ipaddress import ip_address
from math import inf
from time import time
from typing import ClassVar, NoReturn, TypeVar

from ..errors import InferstreamError, PermissionDenied
from ..extensions import ACTIONS, leave_out, loaded
from ..keys.access_control import AccessControl, keys_configured, names_principals, shares_responses
from ..keys.audit import open_audit_log
from ..keys.counters import Counters
from ..keys.credentials import hide_keys, split
from ..keys.quotas import Quotas
from ..settings import Settings
from .caller import Caller, Name, Shown
from .metering import Metering
from .proxies import Proxies

evicts_var = ContextVar("inferstream_evicts", default=True)
"""Whether a load in this context may make other models leave. Batches and shared calls have the first caller's."""

Result = TypeVar("Result")


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

    __slots__ = ("closed", "is_open", "name", "scope")

    def __init__(self, name: str, *, scope: str | None, closed: str = "", is_open: bool = False) -> None:
        self.name = name
        """As the audit log has it."""
        self.scope = scope
        """The scope that a client needs for it; None if each client with valid credentials may ask for it."""
        self.closed = closed
        """The subject of the refusal, if without credentials only this machine may ask for it."""
        self.is_open = is_open
        """Whether everybody may ask for it: what it returns is no secret, or the page that asks for a key."""

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
        raise PermissionDenied(f'The operation "{action.name}" is not registered.')


class Access:
    """Where there are keys, each operation needs one with its scope.

    Without keys, operations that are `closed` are refused beyond loopback, unless a setting opens them.
    Raises InvalidSettings for broken keys, and for an audit log that cannot be written.
    """

    def __init__(
        self,
        settings: Settings,
        counters: Counters | None = None,
        saves: bool = True,
        *,
        embedded: bool = False,
    ) -> None:
        self.repository_open = settings.allow_open_repository or is_loopback(settings.host)
        # The program that embeds an application decides who may read its documentation.
        left = (Action.DOCUMENTATION, Action.REFLECTION) if embedded else ()
        actions = Action.registered(settings.strict)
        self.open = frozenset(action for action in actions if action.is_open)
        """Operations that everybody may ask for."""
        self._unguarded = frozenset(
            action for action in actions if self.repository_open or not action.closed or action in left
        )
        """Operations that need no key where there are no keys."""
        self._scopes = RequiredScopes((action, action.scope) for action in actions)
        self.keys = AccessControl(settings, counters, saves) if keys_configured(settings) else None
        """None where the server asks for no keys."""
        self.requires_credentials = self.keys is not None
        """Whether clients must prove who they are. They learn of other models only what they may see then."""
        self.shares_responses = shares_responses(settings)
        """Whether all clients share cached responses."""
        self.calls_evict = settings.clients_may_evict is not False or self.keys is not None
        """Whether calls may make other models leave memory, if `evicts_var` allows it."""
        self._all_evict = settings.clients_may_evict or (
            settings.clients_may_evict is None and self.keys is None
        )
        self._guards_memory = not self._all_evict and settings.limits_memory
        self._audit = open_audit_log(settings)
        self.metering: Metering | None = None
        """None where the server has neither principals nor an audit log."""
        if names_principals(settings) or self._audit is not None:
            quotas = Quotas(Counters()) if self.keys is None else self.keys.quotas
            self.metering = Metering(quotas, self._audit, Proxies.of(settings))
        self._timer: asyncio.Task[None] | None = None

    def check(self, action: Action, caller: Caller, model: str | None = None) -> None:
        """Raise PermissionDenied where this caller may not do this, or not to this model; Unauthenticated.

        It authenticates each time, so that a revoked key ends with its current call, also on an open socket.
        """
        try:
            keys = self.keys
            if keys is None:
                if action not in self._unguarded:
                    self._scopes[action]
                    raise PermissionDenied(
                        f"{action.closed} is closed because the server listens beyond loopback; "
                        "a key with its scope opens it, or the setting allow_open_repository."
                    )
            elif action not in self.open:
                shown = caller.shown
                if shown is None:
                    shown = hide_keys(caller)
                key = keys.known.get(shown)
                if key is None or (key.expires != inf and key.expires <= time()):
                    caller.principal = caller.key = None
                    key = keys.authenticate(shown, caller.headers)
                caller.key = key
                caller.principal = key.name
                if self._guards_memory:
                    evicts_var.set("repository" in key.scopes)
                if self._scopes[action] not in key.scopes:
                    raise PermissionDenied(f'The key lacks the scope "{action.scope}".')
                # whether or not the model exists
                if not (key.sees_every_model or model is None or key.sees(model)):
                    raise PermissionDenied(f'The key does not allow the model "{model}".')
        except InferstreamError as error:
            self.refused(action.name, caller, model or "", error)
            raise

    def split(self, raw: Iterable[tuple[Name, Name]]) -> tuple[Iterable[tuple[Name, Name]], Shown | None]:
        """The headers of a request, for doors that remember heads: `check` does it for each `Caller` without."""
        return (raw, None) if self.keys is None else split(raw)

    def refused(self, operation: str, caller: Caller, model: str, error: BaseException) -> None:
        """Tell the audit log, if there is one, of a refusal before there was a call."""
        if self.metering is not None:
            self.metering.refused(operation, caller, model, error)

    def may_evict(self, caller: Caller) -> bool:
        """Whether loads and `keep_alive` of this caller may decide which models are in memory."""
        return bool(self._all_evict) or (caller.key is not None and "repository" in caller.key.scopes)

    def rate_limits(self, caller: Caller) -> dict[str, str]:
        """The values of `x-ratelimit-*` for a caller; none without limits."""
        return {} if self.keys is None or caller.key is None else self.keys.quotas.headers(caller.key)

    async def run(
        self,
        action: Action,
        caller: Caller,
        model: str,
        work: Callable[[], Awaitable[Result]],
        size: int = 0,
    ) -> Result:
        """Do what `check` allows and is no inference, within the limits of the caller. Raises LimitExceeded."""
        if self.metering is None:
            return await work()
        return await self.metering.run(action.name, caller, model, size, work)

    def start(self) -> None:
        """Read changed keys and save their use from now on."""
        if self.keys is not None and self._timer is None:
            self._timer = asyncio.create_task(self.keys.run())

    async def close(self) -> None:
        """Save the use of the keys, and write the rest of the audit log."""
        timer, self._timer = self._timer, None
        if self.keys is not None and timer is not None:
            timer.cancel()
            await asyncio.wait([timer])
            await self.keys.close()
        if self._audit is not None:
            await asyncio.to_thread(self._audit.close)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens on `host`."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
