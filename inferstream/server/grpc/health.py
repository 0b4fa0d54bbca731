"""The standard health service (grpc.health.v1)."""

import asyncio

from ...dataplane.access import Action
from ...dataplane.dataplane import DataPlane
from ...errors import NotFound
from ...protos import health_pb2
from ...protos.health_pb2 import (
    HealthCheckRequest,
    HealthCheckResponse,
    HealthListRequest,
    HealthListResponse,
)
from ...protos.pool import SERVICE
from .context import RpcContext
from .rpc import RpcExchange
from .service import RpcService
from .typed import TypedServices

CHECK_INTERVAL_SECONDS = 0.25
"""Seconds between checks of the status for `Watch`."""

KNOWN = ("", SERVICE)


class Health(RpcService):
    """Reports readiness for the server and for each inference service."""

    descriptor = health_pb2.DESCRIPTOR.services_by_name["Health"]
    actions = dict.fromkeys(("Check", "List", "Watch"), Action.HEALTH)
    needs_start = False

    def __init__(self, dataplane: DataPlane, typed: TypedServices) -> None:
        self._dataplane = dataplane
        self._typed = typed

    def _service_names(self) -> list[str]:
        return [*KNOWN, *self._typed.names]

    def _status(self) -> HealthCheckResponse.ServingStatus:
        return HealthCheckResponse.SERVING if self._dataplane.ready else HealthCheckResponse.NOT_SERVING

    async def Check(self, request: HealthCheckRequest, context: RpcContext) -> HealthCheckResponse:
        if request.service not in KNOWN and request.service not in self._typed.names:
            raise NotFound(f"Service {request.service} is not known.")
        return HealthCheckResponse(status=self._status())

    async def List(self, request: HealthListRequest, context: RpcContext) -> HealthListResponse:
        response = HealthCheckResponse(status=self._status())
        return HealthListResponse(statuses=dict.fromkeys(self._service_names(), response))

    async def Watch(self, exchange: RpcExchange[HealthCheckRequest]) -> None:
        """Send the status now and after each change, until the client disconnects."""
        request = await exchange.read()
        last = None
        while True:
            known = request is not None and request.service in self._service_names()
            status = self._status() if known else HealthCheckResponse.SERVICE_UNKNOWN
            if status != last:
                await exchange.write(HealthCheckResponse(status=status).SerializeToString())
                last = status
            await asyncio.sleep(CHECK_INTERVAL_SECONDS)
