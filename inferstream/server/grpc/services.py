"""The services as handlers for any `grpc.aio` server."""

from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

import grpc

from ...dataplane.dataplane import DataPlane
from ...errors import NotStarted
from ...protos.dataplane_pb2 import ModelInferRequest
from ...protos.dataplane_pb2_grpc import METHODS, classes_of
from ...protos.grpc_requests import InferRequests
from ...protos.health_pb2 import HealthCheckRequest, HealthListRequest
from ...protos.pool import HEALTH, LEGACY_SERVICE, REFLECTION, SERVICE
from ...protos.reflection_pb2 import ServerReflectionRequest
from ...settings import Settings
from ...telemetry.metrics import Meters
from ...telemetry.rpcs import RpcMeters
from .health import Health
from .inference import InferenceService
from .reflection import Reflection
from .repository import RepositoryService
from .rpc import Around, Request, RequestType, RpcHandler, Streaming, Unary, streaming, unary
from .stream import StreamService
from .typed import Received, TypedRpc, TypedServices, refuse

if TYPE_CHECKING:
    from ...telemetry.tracing import Tracer


KINDS = {
    (False, False): "UNARY",
    (False, True): "SERVER_STREAMING",
    (True, False): "CLIENT_STREAMING",
    (True, True): "BIDI_STREAMING",
}
"""Kinds of RPCs in meters: whether the client streams, and whether the server does."""

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


class Startable(Protocol):
    """An application that must start before it serves calls."""

    @property
    def started(self) -> bool: ...


def build_services(
    dataplane: DataPlane,
    settings: Settings,
    meters: Meters,
    tracing: "Tracer | None",
    startable: Startable | None = None,
) -> "tuple[grpc.GenericRpcHandler[object, object], ...]":
    """The handlers of every service. Until `startable` has started, each inference RPC is UNAVAILABLE."""
    services = Services(settings, meters, tracing, startable)
    inference, stream = InferenceService(dataplane), StreamService(dataplane, settings)
    repository = RepositoryService(dataplane)
    services.add_inference(SERVICE, inference, stream, repository)
    services.add_inference(LEGACY_SERVICE, repository)
    typed = services.typed(dataplane)
    services.add_health(Health(dataplane, typed))
    if settings.grpc_reflection:
        services.add_reflection(Reflection(typed))
    return (*services.handlers, typed)


class Services:
    def __init__(
        self, settings: Settings, meters: Meters, tracing: "Tracer | None", startable: Startable | None
    ) -> None:
        self.handlers: list[grpc.GenericRpcHandler[object, object]] = []
        self._startable = startable
        self._meters = meters.grpc
        self._profile = settings.status_profile
        self._around: Callable[[str, str], Around] = lambda *_: lambda serve: serve
        if tracing is not None:
            from .tracing import RpcTracing  # late: it imports OpenTelemetry

            self._around = RpcTracing(tracing).around

    def add_inference(self, service: str, *parts: object) -> None:
        """Add the methods that one of the parts has."""
        handlers = {}
        for method in METHODS:
            name = method.name
            behaviour = next((getattr(part, name) for part in parts if hasattr(part, name)), None)
            if behaviour is None:
                continue
            behaviour = self._when_started(behaviour)
            request: RequestType[object] = classes_of(method)[0]
            if request is ModelInferRequest:
                request = InferRequests
            if method.client_streaming:
                handlers[name] = self._streaming("BIDI_STREAMING", service, name, request, behaviour)
            else:
                handlers[name] = self._unary(service, name, request, behaviour)
        self._add(service, handlers)

    def typed(self, dataplane: DataPlane) -> TypedServices:
        """The typed RPCs of functions. The meters of an RPC stay when its model is loaded again."""
        meters: dict[tuple[str, str, str], RpcMeters] = {}

        def build(rpc: TypedRpc) -> RpcHandler:
            service, name = rpc.method.service, rpc.method.name
            kind = KINDS[rpc.method.stream is not None, rpc.method.streams]
            if (kind, service, name) not in meters:
                meters[kind, service, name] = self._meters.of(kind, service, name)
            rest = (Received, meters[kind, service, name], self._profile, self._around(service, name))
            if kind == "UNARY":
                return unary(self._when_started(rpc.infer), *rest)
            return streaming(self._when_started(rpc.stream), *rest)

        unready = self._streaming("BIDI_STREAMING", "typed", "unready", Received, self._when_started(refuse))
        return TypedServices(dataplane, build, unready)

    def add_health(self, health: Health) -> None:
        watch = self._streaming("SERVER_STREAMING", HEALTH, "Watch", HealthCheckRequest, health.Watch)
        check = self._unary(HEALTH, "Check", HealthCheckRequest, health.Check)
        listed = self._unary(HEALTH, "List", HealthListRequest, health.List)
        self._add(HEALTH, {"Check": check, "List": listed, "Watch": watch})

    def add_reflection(self, reflection: Reflection) -> None:
        name = "ServerReflectionInfo"
        behaviour = reflection.ServerReflectionInfo
        for service in REFLECTION:
            handler = self._streaming("BIDI_STREAMING", service, name, ServerReflectionRequest, behaviour)
            self._add(service, {name: handler})

    def _when_started(self, behaviour: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
        startable = self._startable
        if startable is None:
            return behaviour

        def when_started(*arguments: Arguments.args, **options: Arguments.kwargs) -> Returned:
            if not startable.started:
                raise NotStarted
            return behaviour(*arguments, **options)

        return when_started

    def _unary(
        self, service: str, name: str, request: RequestType[Request], behaviour: Unary[Request]
    ) -> RpcHandler:
        meters = self._meters.of("UNARY", service, name)
        return unary(behaviour, request, meters, self._profile, self._around(service, name))

    def _streaming(
        self,
        kind: str,
        service: str,
        name: str,
        request: RequestType[Request],
        behaviour: Streaming[Request],
    ) -> RpcHandler:
        meters = self._meters.of(kind, service, name)
        return streaming(behaviour, request, meters, self._profile, self._around(service, name))

    def _add(self, service: str, handlers: dict[str, RpcHandler]) -> None:
        self.handlers.append(grpc.method_handlers_generic_handler(service, handlers))
