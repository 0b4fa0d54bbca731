"""The standard health service, grpc.health.v1."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ...dataplane.dataplane import DataPlane
from ...protos.messages import SERVICE

LOOK_EVERY = 0.25
"""Seconds between looks for those who watch."""

KNOWN = ("", SERVICE)


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # the library has no types
    """The server's readiness, for the server as a whole and for its inference service."""

    def __init__(self, dataplane: DataPlane) -> None:
        self._dataplane = dataplane

    def _status(self) -> Any:
        statuses = health_pb2.HealthCheckResponse
        return statuses.SERVING if self._dataplane.ready else statuses.NOT_SERVING

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802  # the RPC's name
        if request.service not in KNOWN:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"Service {request.service} is not known.")
        return health_pb2.HealthCheckResponse(status=self._status())

    async def Watch(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        last = None
        while True:
            unknown = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
            status = self._status() if request.service in KNOWN else unknown
            if status != last:
                yield health_pb2.HealthCheckResponse(status=status)
                last = status
            await asyncio.sleep(LOOK_EVERY)
