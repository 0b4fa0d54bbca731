"""The authority: each request names a known tenant."""

from typing import Any, Self

from inferstream import Settings
from inferstream.errors import PermissionDenied, Refused
from inferstream.ext.access import Authority
from inferstream.ext.calls import Action, Caller

from .settings import TenantsSettings


class TenantAuthority(Authority):
    @classmethod
    def of(cls, settings: Settings, **process: Any) -> Self | None:
        return super().of(settings, **process) if settings.section(TenantsSettings).tenants else None

    def __init__(self, settings: Settings, *, embedded: bool = False) -> None:
        super().__init__(settings, embedded=embedded)
        section = settings.section(TenantsSettings)
        self._tenants = section.tenants
        self._header = section.tenants_header.lower()

    def check(self, action: Action, caller: Caller, model: str | None = None) -> None:
        super().check(action, caller, model)
        if action in self.open or action is Action.METRICS:
            return
        tenant = caller.headers.get(self._header)
        if tenant is None:
            raise Refused(f"The header {self._header} is missing. It names your tenant.", 401)
        if tenant not in self._tenants:
            raise PermissionDenied(f'The tenant "{tenant}" is unknown.')
        caller.principal = tenant
