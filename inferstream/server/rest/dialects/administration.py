"""Triton's extensions beside inference: statistics, configuration, logging, tracing, and the one that is not here."""

from collections.abc import Sequence
from typing import Never

from inferstream.ext.calls import Action, Caller
from inferstream.ext.http import Answer, AsgiScope, HttpDialect, ReadClaim, ReadRoute, json_answer

from ....dataplane.live_settings import build_live_settings
from ....dataplane.model_config import config_of
from ....errors import Unsupported
from ...statistics import statistics_of

GET_OR_POST = ("GET", "POST")


class Administration(HttpDialect):
    """What Triton's clients ask beside inferences."""

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
            ReadClaim("/v2/cudasharedmemory/{path}", Action.SHARED_MEMORY, _refuse_cuda, methods=None),
        ]

    async def _all_statistics(self, _: ReadRoute, caller: Caller, __: AsgiScope) -> Answer:
        of = await statistics_of(self._dataplane, self._meters, caller, None, None)
        return json_answer({"model_stats": of})

    async def _statistics(self, route: ReadRoute, caller: Caller, _: AsgiScope) -> Answer:
        of = await statistics_of(self._dataplane, self._meters, caller, route.model, route.version)
        return json_answer({"model_stats": of})

    async def _config(self, route: ReadRoute, *_: object) -> Answer:
        metadata = await self._dataplane.model_metadata(route.model, route.version)
        return json_answer(config_of(self._dataplane.described(route.model, route.version), metadata))

    async def _logging(self, route: ReadRoute, _: Caller, scope: AsgiScope) -> Answer:
        live, posted = self._dataplane.of(build_live_settings), scope["method"] == "POST"
        return json_answer(await live.update_log(route.document()) if posted else live.log())

    async def _trace(self, route: ReadRoute, _: Caller, scope: AsgiScope) -> Answer:
        if route.model:
            self._dataplane.model_ready(route.model, route.version)  # raises for one that is not there
        live, posted = self._dataplane.of(build_live_settings), scope["method"] == "POST"
        return json_answer(live.update_trace(route.document()) if posted else live.trace())


async def _refuse_cuda(*_: object) -> Never:
    raise Unsupported('This server does not have the extension "cuda_shared_memory".')
