"""Which operations are open, and to whom: every route, RPC and message asks `Access.check`."""

import asyncio
from enum import Enum
from ipaddress import ip_address
from time import time

from ..context import request_id_var
from ..errors import InferstreamError, PermissionDenied, own_status
from ..keys.access_control import AccessControl, keys_configured
from ..keys.audit import AuditRecord
from ..keys.counters import Counters
from ..settings import Settings
from .caller import Caller, Grant


class Action(Enum):
    """Every kind of operation that a client may ask for. A path or an RPC stands for one of them."""

    HEALTH = "liveness and readiness"
    """Open to everybody."""
    INFER = "inference"
    STREAM = "stream"
    CANCEL = "cancel"
    RESUME = "resume"
    SERVER_METADATA = "server metadata"
    MODEL_METADATA = "model metadata"
    REPOSITORY_READ = "index of the repository"
    REPOSITORY_WRITE = "load and unload"
    STATISTICS = "statistics"
    METRICS = "metrics"
    DOCUMENTATION = "documentation, page and clients"
    REFLECTION = "reflection"
    CUSTOM_ROUTE = "route of a model"
    ACCESS_LOG = "access log"
    SETTINGS = "settings of traces, logs and memory"


CLOSED = {
    Action.REPOSITORY_READ: "The repository API",
    Action.REPOSITORY_WRITE: "The repository API",
    Action.ACCESS_LOG: "The access log",
}
"""Operations for this machine alone where there are no keys: code from disk, and the names of models and clients."""

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
    Action.ACCESS_LOG: "access",
    Action.SETTINGS: "access",
}
"""The scope that a key needs for each operation; None where every valid key has it."""


class Access:
    """Where there are keys, each operation needs one with its scope.

    Without keys the repository and the access log are closed beyond loopback, unless a setting opens them.
    Raises InvalidSettings for broken keys.
    """

    def __init__(self, settings: Settings, counters: Counters | None = None, saves: bool = True) -> None:
        self.repository_open = settings.allow_open_repository or is_loopback(settings.host)
        # A tuple, because it compares members by identity; their hash is a function of Python.
        self._closed = () if self.repository_open else tuple(CLOSED)
        self.keys = AccessControl(settings, counters, saves) if keys_configured(settings) else None
        """None where the server asks for no keys."""
        self._timer: asyncio.Task[None] | None = None

    def check(self, action: Action, caller: Caller, model: str | None = None) -> None:
        """Raise PermissionDenied where this caller may not do this, or not to this model; Unauthenticated."""
        if self.keys is not None:
            if action is not Action.HEALTH:
                self._check_key(self.keys, action, caller, model)
        elif action in self._closed:
            raise PermissionDenied(
                f"{CLOSED[action]} is closed because the server listens beyond loopback; "
                "the setting allow_open_repository opens it."
            )

    def _check_key(self, keys: AccessControl, action: Action, caller: Caller, model: str | None) -> None:
        """Authenticate each time, so that a revoked key ends with its current call, also on an open socket."""
        caller.principal = caller.grant = None
        try:
            principal = keys.authenticate(caller.headers, _offered(caller), caller.identities)
            caller.principal = principal.name
            caller.grant = Grant(keys, principal)
            scope = SCOPES[action]
            if scope is not None:
                principal.check(scope, model)
            elif model is not None and not principal.sees(model):
                raise PermissionDenied(f'The key does not allow the model "{model}".')
        except InferstreamError as error:
            if keys.audit is not None:
                keys.audit.put(_refusal(action, caller, model, error))
            raise

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


def _offered(caller: Caller) -> list[str]:
    """The subprotocols that a WebSocket's client offers."""
    if caller.dialect != "websocket":
        return []
    return [each.strip() for each in caller.headers.get("sec-websocket-protocol", "").split(",")]


def _refusal(action: Action, caller: Caller, model: str | None, error: InferstreamError) -> AuditRecord:
    key = "" if caller.grant is None else caller.grant.principal.key
    return AuditRecord(
        time(),
        caller.principal or "",
        key,
        caller.peer,
        caller.door,
        caller.dialect,
        action.name.lower(),
        model or "",
        "",
        request_id_var.get() or "",
        0,
        0,
        own_status(error) or 403,
        error.code.value,
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens on `host`."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
