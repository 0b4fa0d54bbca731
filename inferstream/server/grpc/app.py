"""The gRPC server: its services, its limits, its port."""

import logging
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from ...dataplane.dataplane import DataPlane
from ...protos.dataplane_pb2_grpc import METHODS, classes_of
from ...protos.messages import POOL, SERVICE
from ...settings import Settings
from ...telemetry.metrics import Meters
from ..ports import bind
from .health import Health
from .inference import InferenceService
from .repository import RepositoryService
from .stream import StreamService

logger = logging.getLogger("inferstream.grpc")

HEADROOM = 2**20
"""Bytes a message may have around its tensors."""

MAX_STREAMS = 4096
"""Calls in progress on one connection."""

LEGACY_SERVICE = "inference.model_repository.ModelRepositoryService"
"""MLServer's older name for the repository calls, with the same messages."""

Behaviour = Callable[..., Awaitable[Any]]


class GrpcServer:
    """One gRPC port."""

    def __init__(self, dataplane: DataPlane, settings: Settings, meters: Meters) -> None:
        self._meters = meters.grpc
        self._server = grpc.aio.server(options=_options(settings))
        inference = InferenceService(dataplane, settings)
        repository = RepositoryService(dataplane, settings)
        stream = StreamService(dataplane, settings)
        self._add_service(inference, stream, repository)
        self._add_legacy_service(repository)
        health_pb2_grpc.add_HealthServicer_to_server(Health(dataplane), self._server)
        if settings.grpc_reflection:
            POOL.AddSerializedFile(health_pb2.DESCRIPTOR.serialized_pb)
            names = (
                SERVICE,
                health_pb2.DESCRIPTOR.services_by_name["Health"].full_name,
                reflection.SERVICE_NAME,
            )
            reflection.enable_server_reflection(names, self._server, pool=POOL)

    def bind(self, host: str, port: int) -> int:
        """Take the port; returns the one that was taken. Raises InvalidSettings when it is in use."""
        bind(host, port, "gRPC").close()  # gRPC's own error names neither the port nor the reason
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return int(self._server.add_insecure_port(address))

    async def start(self) -> None:
        await self._server.start()

    async def stop(self) -> None:
        """Close the port; calls that still run have a second to end."""
        await self._server.stop(1)

    def _add_service(self, *servicers: Any) -> None:
        handlers = {}
        for method in METHODS:
            behaviour = next(getattr(part, method.name) for part in servicers if hasattr(part, method.name))
            if method.client_streaming:
                # Bytes both ways: the answer is one of two message types.
                counted = self._counted("BIDI_STREAMING", SERVICE, method.name, behaviour)
                handlers[method.name] = grpc.stream_stream_rpc_method_handler(counted)
                continue
            request, response = classes_of(method)
            counted = self._counted("UNARY", SERVICE, method.name, behaviour)
            if method.name == "ModelInfer":
                # It parses its own bytes, so that garbage is the client's error, and writes its own, faster.
                handlers[method.name] = grpc.unary_unary_rpc_method_handler(counted)
                continue
            handlers[method.name] = grpc.unary_unary_rpc_method_handler(
                counted,
                request_deserializer=request.FromString,
                response_serializer=response.SerializeToString,
            )
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))

    def _add_legacy_service(self, repository: RepositoryService) -> None:
        handlers = {}
        for method in METHODS:
            if hasattr(repository, method.name):
                name = (
                    method.name.removeprefix("Repository")
                    if method.name != "RepositoryIndex"
                    else method.name
                )
                request, response = classes_of(method)
                handlers[name] = grpc.unary_unary_rpc_method_handler(
                    self._counted("UNARY", LEGACY_SERVICE, name, getattr(repository, method.name)),
                    request_deserializer=request.FromString,
                    response_serializer=response.SerializeToString,
                )
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(LEGACY_SERVICE, handlers),)
        )

    def _counted(self, kind: str, service: str, name: str, behaviour: Behaviour) -> Behaviour:
        """The RPC's behaviour, with its status and duration counted."""
        method = f"/{service}/{name}"
        meters = self._meters

        async def counted(request: Any, context: Any) -> Any:
            started = perf_counter()
            status = "OK"
            try:
                return await behaviour(request, context)
            except grpc.aio.AbortError:
                status = context.code().name
                raise
            except BaseException:
                status = "CANCELLED"
                raise
            finally:
                meters.ended(kind, method, status, perf_counter() - started)

        return counted


def _options(settings: Settings) -> list[tuple[str, int]]:
    largest = settings.grpc_max_message_length
    return [
        ("grpc.max_receive_message_length", largest or settings.max_body_bytes + HEADROOM),
        ("grpc.max_send_message_length", largest or -1),
        ("grpc.so_reuseport", 0),  # a port in use is an error, not a way to share it
        ("grpc.max_concurrent_streams", MAX_STREAMS),
        ("grpc.max_metadata_size", 16 * 1024),
        # Clients that ping often to keep proxies awake are not attackers.
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ("grpc.keepalive_permit_without_calls", 1),
    ]
