"""Requests in progress, by id."""

from collections.abc import Sequence

import orjson

from ....dataplane.access import Action
from ....dataplane.caller import Caller
from ..messages import JSON, RawHeaders, Scope
from .base import HttpDialect, ReadRoute, ScopeClaim

DELETE = ("DELETE",)


class Requests(HttpDialect):
    """Cancels requests that came over any transport."""

    name = "requests"

    def reads(self) -> Sequence[ScopeClaim]:
        return [ScopeClaim("/v2/requests/{id}", Action.CANCEL, self._cancel, DELETE)]

    async def _cancel(self, route: ReadRoute, caller: Caller, _: Scope) -> tuple[int, RawHeaders, bytes]:
        cancelled = await self._dataplane.cancel(route.value, caller)
        return 200, [JSON], orjson.dumps({"id": route.value, "cancelled": cancelled})
