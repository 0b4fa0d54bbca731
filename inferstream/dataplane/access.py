"""Which operations are open, and to whom: every route, RPC and message asks `Access.check`."""

from enum import Enum
from ipaddress import ip_address

from ..errors import PermissionDenied
from .caller import Caller


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
"""What only this machine may ask for: code from disk, and the names of models and clients."""


class Access:
    """Beyond loopback the repository and the access log are closed, unless a setting opens them."""

    def __init__(self, host: str, allow_open_repository: bool) -> None:
        self.repository_open = allow_open_repository or is_loopback(host)
        # A tuple, because it compares members by identity; their hash is a function of Python.
        self._closed = () if self.repository_open else tuple(CLOSED)

    def check(self, action: Action, caller: Caller, model: str | None = None) -> None:
        """Raise PermissionDenied where this caller may not do this, or not to this model."""
        if action in self._closed:
            raise PermissionDenied(
                f"{CLOSED[action]} is closed because the server listens beyond loopback; "
                "the setting allow_open_repository opens it."
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens on `host`."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
