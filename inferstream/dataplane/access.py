"""The one question whether a caller may do something: every route, RPC and message asks `Access.check`."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from enum import Enum
from ipaddress import ip_address
from math import inf
from time import time
from typing import TypeVar

from ..errors import InferstreamError, PermissionDenied
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


class Action(Enum):
    """Every kind of operation that a client may ask for. A path or an RPC stands for one of them."""

    __hash__ = object.__hash__  # an Enum's own is a function of Python, at each request

    HEALTH = "liveness and readiness"
    PAGE = "files of the page and of the clients"
    INFER = "inference"
    STREAM = "stream"
    CANCEL = "cancel"
    RESUME = "resume"
    SERVER_METADATA = "server metadata"
    MODEL_METADATA = "model metadata"
    REPOSITORY_READ = "index of the repository"
    REPOSITORY_WRITE = "load and unload"
    STATISTICS = "statistics"
    SHARED_MEMORY = "shared_memory"
    METRICS = "metrics"
    DOCUMENTATION = "documentation"
    REFLECTION = "reflection"
    CUSTOM_ROUTE = "route of a model"
    ACCESS_LOG = "access log"
    SETTINGS = "settings of traces and logs"


OPEN = frozenset((Action.HEALTH, Action.PAGE))
"""Operations for everybody: what they answer is no secret, and the page asks its reader for a key."""

CLOSED = {
    Action.REPOSITORY_READ: "The repository API",
    Action.REPOSITORY_WRITE: "The repository API",
    Action.ACCESS_LOG: "The access log",
    Action.DOCUMENTATION: "The documentation",
    Action.REFLECTION: "Reflection",
    Action.SETTINGS: "The API of log and trace settings",
}
"""Operations for this machine alone where there are no keys: code from disk, the log, clients, what models take."""

SCOPES = {
    Action.INFER: "infer",
    Action.STREAM: "stream",
    Action.CANCEL: None,
    Action.RESUME: None,
    Action.SERVER_METADATA: None,
    Action.MODEL_METADATA: None,
    Action.REPOSITORY_READ: "repository",
    Action.REPOSITORY_WRITE: "repository",
    Action.STATISTICS: "metrics",
    Action.METRICS: "metrics",
    Action.DOCUMENTATION: "docs",
    Action.REFLECTION: "docs",
    Action.CUSTOM_ROUTE: "infer",
    Action.SHARED_MEMORY: "infer",
    Action.ACCESS_LOG: "access",
    Action.SETTINGS: "access",
}
"""The scope that a key needs for each operation; None where every valid key has it."""


class Access:
    """Where there are keys, each operation needs one with its scope.

    Without keys the operations in `CLOSED` are closed beyond loopback, unless a setting opens them.
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
        self._closed = frozenset() if self.repository_open else frozenset(CLOSED).difference(left)
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
                if action in self._closed:
                    raise PermissionDenied(
                        f"{CLOSED[action]} is closed because the server listens beyond loopback; "
                        "a key with its scope opens it, or the setting allow_open_repository."
                    )
            elif action not in OPEN:
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
                if SCOPES[action] not in key.scopes:
                    raise PermissionDenied(f'The key lacks the scope "{SCOPES[action]}".')
                # whether or not the model exists
                if not (key.sees_every_model or model is None or key.sees(model)):
                    raise PermissionDenied(f'The key does not allow the model "{model}".')
        except InferstreamError as error:
            self.refused(action.name.lower(), caller, model or "", error)
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
        return await self.metering.run(action.name.lower(), caller, model, size, work)

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
