"""Requests in progress, by id."""

from collections.abc import Sequence

import orjson

from ....types import Headers
from ...connections import ScopeOrigin
from ..messages import JSON, RawHeaders, Scope
from .base import HttpDialect, ReadRoute, ScopeClaim

DELETE = ("DELETE",)


class Requests(HttpDialect):
    """Cancels requests that came over any transport."""

    name = "requests"

    def reads(self) -> Sequence[ScopeClaim]:
        return [ScopeClaim("/v2/requests/{id}", self._cancel, DELETE)]

    async def _cancel(self, route: ReadRoute, scope: Scope) -> tuple[int, RawHeaders, bytes]:
        headers = Headers(scope["headers"], None, ScopeOrigin(scope))
        cancelled = await self._dataplane.cancel(route.value, headers)
        return 200, [JSON], orjson.dumps({"id": route.value, "cancelled": cancelled})
