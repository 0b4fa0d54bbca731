"""The dialect: `GET /tenants/usage` returns the usage of the tenant that asks."""

from collections.abc import Mapping, Sequence
from typing import Any

from inferstream.errors import NotFound
from inferstream.ext.calls import Action, Caller
from inferstream.ext.http import (
    Answer,
    AsgiScope,
    HttpDialect,
    ReadClaim,
    ReadRoute,
    describe_get,
    json_answer,
)

from .usage import Usage

PATH = "/tenants/usage"


class UsageDialect(HttpDialect):
    name = "tenants"

    def reads(self) -> Sequence[ReadClaim]:
        return [ReadClaim(PATH, Action.STATISTICS, self._show)]

    def described(self) -> Mapping[str, Any]:
        return {PATH: describe_get("The usage of your tenant")}

    async def _show(self, route: ReadRoute, caller: Caller, scope: AsgiScope) -> Answer:
        tenant = self._dataplane.of(Usage).get(caller.principal or "")
        if tenant is None:
            raise NotFound("This server has no tenants. The setting tenants names them.")
        return json_answer(
            {
                "tenant": caller.principal,
                "calls": tenant.calls,
                "characters": tenant.characters,
                "calls_per_minute": tenant.calls_per_minute,
            }
        )
