"""Cancellation of running requests by id."""

from collections.abc import Sequence

from ....dataplane.access import Action
from ....dataplane.caller import Caller
from ..messages import Scope
from .base import Answer, HttpDialect, ReadClaim, ReadRoute, in_json

DELETE = ("DELETE",)


class Requests(HttpDialect):
    """Cancels requests of any transport."""

    name = "requests"

    def reads(self) -> Sequence[ReadClaim]:
        return [ReadClaim("/v2/requests/{id}", Action.CANCEL, self._cancel, DELETE)]

    async def _cancel(self, route: ReadRoute, caller: Caller, _: Scope) -> Answer:
        cancelled = await self._dataplane.cancel(route.value, caller)
        return in_json({"id": route.value, "cancelled": cancelled})
