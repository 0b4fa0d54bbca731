"""HTTP routes of the Triton system shared memory extension."""

from collections.abc import Sequence

from inferstream.ext.calls import Caller
from inferstream.ext.http import Answer, AsgiScope, HttpDialect, ReadClaim, ReadRoute, json_answer

from .actions import SHARED_MEMORY
from .regions import find_regions

POST = ("POST",)
ALL = "/v2/systemsharedmemory"


class SystemSharedMemory(HttpDialect):
    """Registers, unregisters and lists regions of shared memory."""

    name = "system_shared_memory"
    of_models = False

    def reads(self) -> Sequence[ReadClaim]:
        one = f"{ALL}/region/{{region}}"
        return [
            ReadClaim(f"{ALL}/status", SHARED_MEMORY, self._status),
            ReadClaim(f"{one}/status", SHARED_MEMORY, self._status),
            ReadClaim(f"{one}/register", SHARED_MEMORY, self._register, POST, takes_body=True),
            ReadClaim(f"{ALL}/unregister", SHARED_MEMORY, self._unregister, POST),
            ReadClaim(f"{one}/unregister", SHARED_MEMORY, self._unregister, POST),
        ]

    async def _status(self, route: ReadRoute, caller: Caller, _: AsgiScope) -> Answer:
        return json_answer(await find_regions(self._dataplane).status(route.value, caller))

    async def _register(self, route: ReadRoute, caller: Caller, _: AsgiScope) -> Answer:
        said = route.document()
        key, offset, size = said.get("key"), said.get("offset", 0), said.get("byte_size")
        await find_regions(self._dataplane).register(route.value, key, offset, size, caller)
        return json_answer({})

    async def _unregister(self, route: ReadRoute, caller: Caller, _: AsgiScope) -> Answer:
        await find_regions(self._dataplane).unregister(route.value, caller)
        return json_answer({})
