"""Requests in progress, by id."""

from collections.abc import Sequence

import orjson

from ....types import Headers
from .base import HttpDialect, ReadClaim, ReadRoute

DELETE = ("DELETE",)


class Requests(HttpDialect):
    """Cancels requests that came over any transport."""

    name = "requests"

    def reads(self) -> Sequence[ReadClaim]:
        return [ReadClaim("/v2/requests/{id}", self._cancel, DELETE)]

    async def _cancel(self, route: ReadRoute) -> tuple[int, bytes]:
        cancelled = await self._dataplane.cancel(route.value, Headers(route.headers))
        return 200, orjson.dumps({"id": route.value, "cancelled": cancelled})
