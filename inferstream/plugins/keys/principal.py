"""Principals: authenticated clients and the permissions of the key in use."""

import fnmatch
import math
import re
from collections import deque
from collections.abc import Iterable
from functools import cache

import msgspec

from inferstream.ext.calls import Action

_SECOND = 1_000_000_000
"""Nanoseconds per second."""


@cache
def known_scopes() -> tuple[str, ...]:
    """Return the scopes of all registered operations, which a key can have."""
    scopes = (action.scope for action in Action.list_all())
    return tuple(dict.fromkeys(scope for scope in scopes if scope is not None))


class KeyLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The limits of a key.

    None means unlimited, and 0 rejects everything. Raises ValueError for a negative limit.
    """

    requests_per_second: float | None = None
    burst: int | None = None
    """Maximum number of requests at once. By default, one second's worth of requests."""
    in_flight: int | None = None
    streams: int | None = None
    tokens_per_minute: int | None = None
    tokens_per_day: int | None = None
    bytes_per_second: int | None = None
    priority: int | None = None
    """The best priority of calls relative to other principals. By default, the model's priority."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and not (value >= 0 and math.isfinite(value)):
                raise ValueError(f'"{name}" must be 0 or more, got {value}')
        if self.priority is not None and not 1 <= self.priority <= 9:
            raise ValueError(f'"priority" must be 1 to 9, got {self.priority}')
        if self.burst is not None and self.requests_per_second is None:
            raise ValueError('"burst" needs "requests_per_second"')

    @property
    def of_tokens(self) -> bool:
        return self.tokens_per_minute is not None or self.tokens_per_day is not None


NO_LIMITS = KeyLimits()


class Principal:
    """An authenticated client. `key` is the id of its key, or the equivalent for a certificate or token."""

    __slots__ = (
        "_models",
        "best_priority",
        "burst",
        "byte_limit",
        "expires",
        "key",
        "limits",
        "name",
        "request_nanoseconds",
        "request_window",
        "scopes",
        "sees_every_model",
        "token_limits",
        "use",
    )

    def __init__(
        self,
        name: str,
        key: str,
        scopes: Iterable[str],
        models: Iterable[str],
        expires: float | None = None,
        limits: KeyLimits = NO_LIMITS,
    ) -> None:
        self.name = name
        self.key = key
        self.scopes: frozenset[str | None] = frozenset((*scopes, None))
        """Includes None, the scope of operations that any valid key may request."""
        self.expires = math.inf if expires is None else expires
        """Seconds since 1970."""
        patterns = [*models]
        self.sees_every_model = "*" in patterns
        self._models = re.compile("|".join(map(fnmatch.translate, patterns)) or r"(?!)")
        self.best_priority = limits.priority or 0
        """The limit `priority`, or 0 for the model's priority."""
        self.limits = None if msgspec.structs.replace(limits, priority=None) == NO_LIMITS else limits
        rate = limits.requests_per_second
        self.burst = max(1, math.ceil(rate or 0)) if limits.burst is None else limits.burst
        """Maximum number of requests at once."""
        self.request_nanoseconds = _interval(rate)
        """Nanoseconds that one request adds to the bucket's virtual time. 0 if requests are unlimited."""
        self.request_window = self.burst * self.request_nanoseconds if rate else 0
        self.byte_limit = limits.bytes_per_second is not None
        self.token_limits = limits.of_tokens
        self.use: KeyUse | None = None
        """Usage of the key in this process since the last tick. `Quotas` sets it."""

    def sees(self, model: str) -> bool:
        """Whether the key allows the model, which may be `model:version`. Model names contain no colon."""
        return self.sees_every_model or self._models.match(model.partition(":")[0]) is not None


REQUESTS, REFUSED, TOKENS, BYTES = range(4)

NO_USE = [0] * 4


class KeyUse:
    """The usage of a key in this process since the last tick.

    When the principal is freed, the usage moves to `ended`.
    """

    __slots__ = ("__weakref__", "_ended", "key", "limits", "name", "own", "sent")

    def __init__(self, principal: Principal, ended: "deque[KeyUse]") -> None:
        self.key = principal.key
        self.name = principal.name
        self.limits = principal.limits
        self.own = [*NO_USE]
        self.sent = 0
        """Response bytes, which count towards limits at the next tick or limited call.

        Counting each would take 0.3 µs.
        """
        self._ended = ended

    def __del__(self) -> None:
        if self.sent or self.own != NO_USE:
            self._ended.append(self)


def _interval(rate: float | None) -> int:
    """Return the nanoseconds between requests, rounded up so that the rate is never exceeded."""
    return math.ceil(_SECOND / rate) if rate else 0
