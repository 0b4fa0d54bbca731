"""Authorities for servers that require keys, write an audit log or trust gateways."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from math import inf
from time import time
from typing import Any, TypeVar

from inferstream import Settings
from inferstream.errors import InferstreamError, PermissionDenied
from inferstream.ext.access import Authority
from inferstream.ext.calls import Action, Caller
from inferstream.plugins.keys.access_control import (
    AccessControl,
    has_keys,
    names_principals,
    shares_responses,
)
from inferstream.plugins.keys.audit import has_audit_log, open_audit_log
from inferstream.plugins.keys.counters import Counters, create_counters
from inferstream.plugins.keys.credentials import Name, Shown, hide_keys, split
from inferstream.plugins.keys.metering import Metering
from inferstream.plugins.keys.proxies import Proxies
from inferstream.plugins.keys.quotas import Quotas
from inferstream.plugins.keys.settings import KeysSettings

Result = TypeVar("Result")


class MeteringAuthority(Authority):
    """Applies the default permissions, writes the audit log, and lets trusted gateways identify clients."""

    metering: Metering

    def __init__(self, settings: Settings, quotas: Quotas, *, embedded: bool = False) -> None:
        super().__init__(settings, embedded=embedded)
        self._audit = open_audit_log(settings)
        proxies = Proxies.of(settings)
        self.metering = Metering(quotas, self._audit, proxies)
        self.read_gateway = proxies.read if proxies else None

    @classmethod
    def of(
        cls, settings: Settings, *, embedded: bool, index: int, count: int, shared: int | None
    ) -> "MeteringAuthority | None":
        if has_keys(settings):
            return KeyAuthority(settings, index, count, shared)
        if names_principals(settings) or has_audit_log(settings):
            return cls(settings, Quotas(Counters()), embedded=embedded)
        return None

    def record_rejection(self, operation: str, caller: Caller, model: str, error: BaseException) -> None:
        self.metering.record_rejection(operation, caller, model, error)

    async def run(
        self,
        action: Action,
        caller: Caller,
        model: str,
        work: Callable[[], Awaitable[Result]],
        size: int = 0,
    ) -> Result:
        return await self.metering.run(action.name, caller, model, size, work)

    async def close(self) -> None:
        """Flush and close the audit log."""
        if self._audit is not None:
            await asyncio.to_thread(self._audit.close)


class KeyAuthority(MeteringAuthority):
    """Requires a key with the operation's scope. Raises InvalidSettings if the keys are invalid."""

    requires_credentials = True

    def __init__(self, settings: Settings, index: int = 0, count: int = 1, shared: int | None = None) -> None:
        if index == 0 and count > 1:
            shared = self.shared = create_counters(count)
        try:
            self._counters = Counters(shared, index, count)
            self.keys = AccessControl(settings, self._counters, saves=index == 0)
            super().__init__(settings, self.keys.quotas)
        except BaseException:  # An embedding program may continue without the server.
            self._close_shared_file()
            raise
        self.shares_responses = shares_responses(settings)
        self.metrics_port_open = settings.section(KeysSettings).allow_open_metrics
        self.calls_evict = True
        self._all_evict = bool(settings.clients_may_evict)
        self._guards_memory = not self._all_evict and settings.limits_memory
        self._timer: asyncio.Task[None] | None = None

    def check(self, action: Action, caller: Caller, model: str | None = None) -> None:
        try:
            if action not in self.open:
                shown = caller.shown
                if shown is None:
                    shown = hide_keys(caller)
                key = self.keys.known.get(shown)
                if key is None or (key.expires != inf and key.expires <= time()):
                    caller.principal = caller.key = None
                    key = self.keys.authenticate(shown, caller.headers)
                caller.key = key
                caller.principal = key.name
                if self._guards_memory:
                    self.evicts.set("repository" in key.scopes)
                if self.scopes[action] not in key.scopes:
                    raise PermissionDenied(f'The key lacks the scope "{action.scope}".')
                # Checked even if the model does not exist, so the response does not reveal it.
                if not (key.sees_every_model or model is None or key.sees(model)):
                    raise PermissionDenied(f'The key does not allow the model "{model}".')
        except InferstreamError as error:
            self.record_rejection(action.name, caller, model or "", error)
            raise

    def split(self, raw: Iterable[tuple[Name, Name]]) -> tuple[Iterable[tuple[Name, Name]], Shown]:
        return split(raw)

    def may_evict(self, caller: Caller) -> bool:
        key: Any = caller.key
        return self._all_evict or (key is not None and "repository" in key.scopes)

    def rate_limits(self, caller: Caller) -> dict[str, str]:
        key: Any = caller.key
        return {} if key is None else self.keys.quotas.headers(key)

    def start(self) -> None:
        """Start the task that reloads keys and saves their usage."""
        if self._timer is None:
            self._timer = asyncio.create_task(self.keys.run())

    def forget(self, index: int) -> None:
        self._counters.forget(index)

    async def close(self) -> None:
        """Save the usage of the keys, and flush and close the audit log."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            await asyncio.wait([timer])
            await self.keys.close()
        await super().close()
        self._close_shared_file()

    def _close_shared_file(self) -> None:
        if self.shared is not None:
            os.close(self.shared)
            self.shared = None
