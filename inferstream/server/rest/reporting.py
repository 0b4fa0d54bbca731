"""Inferences whose responses report the load of the server."""

from collections.abc import Awaitable

from ...dataplane.dataplane import DataPlane
from ...dataplane.reply import Reply
from ...protos.json_limits import JsonLimits
from ...settings import Settings
from ...telemetry.metrics import DoorMeters
from ...types import InferenceResponse
from ..orca import FORMAT, HEADER, LoadReports
from .dialects.base import ParsedRequest
from .exchange import Exchange
from .inference import NO_HEADERS, InferenceDoor
from .messages import RawHeaders


class ReportingDoor(InferenceDoor):
    """Adds ORCA's header to whole responses and to the heads of streams.

    A door of its own, so that a server without reports pays nothing for them.
    """

    def __init__(
        self,
        reports: LoadReports,
        dataplane: DataPlane,
        settings: Settings,
        meters: DoorMeters,
        json: JsonLimits,
    ) -> None:
        super().__init__(dataplane, settings, meters, json)
        self._reports = reports

    def _respond(
        self,
        exchange: Exchange,
        response: InferenceResponse | None,
        asked: ParsedRequest,
        headers: RawHeaders,
        text: bytes,
    ) -> Awaitable[None] | None:
        return super()._respond(exchange, response, asked, headers + self._report(exchange), text)

    async def _stream(
        self, exchange: Exchange, reply: Reply, asked: ParsedRequest, more: RawHeaders = NO_HEADERS
    ) -> None:
        await super()._stream(exchange, reply, asked, more + self._report(exchange))

    def _report(self, exchange: Exchange) -> RawHeaders:
        value = self._reports.header(dict(exchange.headers).get(FORMAT.encode()))
        return NO_HEADERS if value is None else [(HEADER, value)]
