"""The calls and characters of each tenant, which the stage counts and the dialect shows."""

import time
from collections import deque
from dataclasses import dataclass, field

from inferstream.errors import Refused
from inferstream.ext.calls import ServerParts

from .settings import TenantsSettings


@dataclass
class TenantUsage:
    calls_per_minute: int
    calls: int = 0
    characters: int = 0
    _recent: deque[float] = field(default_factory=deque[float])

    def start_call(self, characters: int) -> None:
        """Count a call. Raises Refused with status 429 if the tenant has reached its limit."""
        now = time.monotonic()
        while self._recent and self._recent[0] <= now - 60:
            self._recent.popleft()
        if len(self._recent) >= self.calls_per_minute:
            wait = int(self._recent[0] + 60 - now) + 1
            raise Refused(f"The limit of {self.calls_per_minute} calls per minute is reached.", 429, wait)
        self._recent.append(now)
        self.calls += 1
        self.characters += characters


class Usage(dict[str, TenantUsage]):
    def __init__(self, parts: ServerParts) -> None:
        limits = parts.settings.section(TenantsSettings).tenants
        super().__init__({tenant: TenantUsage(limit) for tenant, limit in limits.items()})
