"""HTTP routes of the Triton extensions for statistics, configuration, logging and tracing."""

from collections.abc import Sequence
from typing import Never

from inferstream.errors import Unsupported
from inferstream.ext.calls import Action, Caller
from inferstream.ext.http import Answer, AsgiScope, HttpDialect, ReadClaim, ReadRoute, json_answer

from .actions import SHARED_MEMORY
from .live_settings import build_live_settings
from .model_config import build_config
from .statistics import collect_statistics

GET_OR_POST = ("GET", "POST")


class Administration(HttpDialect):
    """The administrative endpoints of Triton. CUDA shared memory is not supported."""

    name = "administration"

    def reads(self) -> Sequence[ReadClaim]:
        trace = [
            ReadClaim(path, Action.SETTINGS, self._trace, GET_OR_POST, takes_body=True)
            for path in ("/v2/trace/setting", "/v2/models/{model_name}/trace/setting")
        ]
        return [
            ReadClaim("/v2/models/stats", Action.STATISTICS, self._all_statistics),
            ReadClaim("/v2/models/{model_name}/stats", Action.STATISTICS, self._statistics),
            ReadClaim("/v2/models/{model_name}/config", Action.MODEL_METADATA, self._config),
            ReadClaim("/v2/logging", Action.SETTINGS, self._logging, GET_OR_POST, takes_body=True),
            *trace,
            ReadClaim("/v2/cudasharedmemory/{path}", SHARED_MEMORY, _refuse_cuda, methods=None),
        ]

    async def _all_statistics(self, _: ReadRoute, caller: Caller, __: AsgiScope) -> Answer:
        of = await collect_statistics(self._dataplane, self._meters, caller, None, None)
        return json_answer({"model_stats": of})

    async def _statistics(self, route: ReadRoute, caller: Caller, _: AsgiScope) -> Answer:
        of = await collect_statistics(self._dataplane, self._meters, caller, route.model, route.version)
        return json_answer({"model_stats": of})

    async def _config(self, route: ReadRoute, *_: object) -> Answer:
        metadata = await self._dataplane.model_metadata(route.model, route.version)
        return json_answer(build_config(self._dataplane.described(route.model, route.version), metadata))

    async def _logging(self, route: ReadRoute, _: Caller, scope: AsgiScope) -> Answer:
        live, posted = self._dataplane.of(build_live_settings), scope["method"] == "POST"
        return json_answer(await live.update_log(route.document()) if posted else live.read_log())

    async def _trace(self, route: ReadRoute, _: Caller, scope: AsgiScope) -> Answer:
        if route.model:
            # Raises an error if the model is missing.
            self._dataplane.model_ready(route.model, route.version)
        live, posted = self._dataplane.of(build_live_settings), scope["method"] == "POST"
        return json_answer(live.update_trace(route.document()) if posted else live.read_trace())


async def _refuse_cuda(*_: object) -> Never:
    raise Unsupported('This server does not have the extension "cuda_shared_memory".')
