"""The services, as the RPCs that any engine serves."""

from collections.abc import Awaitable, Callable, Sequence
from functools import reduce
from typing import ParamSpec, TypeVar

from google.protobuf.message import Message

from ...dataplane.access import Action
from ...dataplane.dataplane import DataPlane
from ...errors import NotStarted
from ...protos.dataplane_pb2 import ModelInferRequest
from ...protos.dataplane_pb2_grpc import METHODS, classes_of
from ...protos.grpc_requests import InferRequests
from ...protos.health_pb2 import HealthCheckRequest, HealthListRequest
from ...protos.pool import HEALTH, LEGACY_SERVICE, REFLECTION, REQUESTS, SERVICE
from ...protos.reflection_pb2 import ServerReflectionRequest
from ...protos.requests_pb2 import CancelRequest
from ...settings import Settings
from ...telemetry.metrics import Meters
from ...telemetry.rpcs import RpcMeters
from ..edge import Edge
from .administration import AdministrationService
from .context import RpcContext, caller_of
from .control import RepositoryService, RequestsService, model_named
from .health import Health
from .inference import InferenceService
from .reflection import Reflection
from .rpc import (
    Around,
    Request,
    RequestType,
    RpcExchange,
    Rpcs,
    ServedRpc,
    Streaming,
    Unary,
    streaming,
    unary,
)
from .stream import StreamService
from .typed import Received, TypedRpc, TypedServices, refuse

KINDS = {
    (False, False): "UNARY",
    (False, True): "SERVER_STREAMING",
    (True, False): "CLIENT_STREAMING",
    (True, True): "BIDI_STREAMING",
}
"""Kinds of RPCs in meters: whether the client streams, and whether the server does."""

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


ACTIONS = {
    "ServerLive": Action.HEALTH,
    "ServerReady": Action.HEALTH,
    "ModelReady": Action.HEALTH,
    "ServerMetadata": Action.SERVER_METADATA,
    "ModelMetadata": Action.MODEL_METADATA,
    "ModelInfer": Action.INFER,
    "ModelStreamInfer": Action.STREAM,
    "RepositoryIndex": Action.REPOSITORY_READ,
    "RepositoryModelLoad": Action.REPOSITORY_WRITE,
    "RepositoryModelUnload": Action.REPOSITORY_WRITE,
    "ModelConfig": Action.MODEL_METADATA,
    "ModelStatistics": Action.STATISTICS,
    "LogSettings": Action.SETTINGS,
    "TraceSetting": Action.SETTINGS,
    **dict.fromkeys(
        (
            f"{kind}SharedMemory{verb}"
            for kind in ("System", "Cuda")
            for verb in ("Status", "Register", "Unregister")
        ),
        Action.SHARED_MEMORY,
    ),
    "Cancel": Action.CANCEL,
    "Check": Action.HEALTH,
    "List": Action.HEALTH,
    "Watch": Action.HEALTH,
    "ServerReflectionInfo": Action.REFLECTION,
}
"""The operation that each method stands for. Typed methods are inferences and streams."""

UNASKED = (
    Action.HEALTH,
    Action.INFER,
    Action.STREAM,
    Action.CANCEL,
    Action.REPOSITORY_READ,
    Action.REPOSITORY_WRITE,
)
"""Operations that are open to everybody, or ask when they know their model."""


def build_services(
    dataplane: DataPlane,
    settings: Settings,
    meters: Meters,
    edges: Sequence[Edge],
    started: Callable[[], bool] | None = None,
) -> Rpcs:
    """The RPCs of every service. Until all is `started`, each inference RPC is UNAVAILABLE."""
    services = Services(dataplane, settings, meters, edges, started)
    inference, stream = InferenceService(dataplane), StreamService(dataplane, settings)
    repository, administration = RepositoryService(dataplane), AdministrationService(dataplane, meters)
    services.add_inference(SERVICE, inference, stream, repository, administration)
    services.add_inference(LEGACY_SERVICE, repository)
    cancel = services.when_started(RequestsService(dataplane).Cancel)
    services.add_unary(REQUESTS, "Cancel", CancelRequest, cancel)
    health = Health(dataplane, services.typed)
    services.add_streaming("SERVER_STREAMING", HEALTH, "Watch", HealthCheckRequest, health.Watch)
    services.add_unary(HEALTH, "Check", HealthCheckRequest, health.Check)
    services.add_unary(HEALTH, "List", HealthListRequest, health.List)
    claims = [claim for edge in edges for claim in edge.rpcs]
    for service, method, request, serve, action in claims:
        services.add_streaming("SERVER_STREAMING", service, method, request, serve, action)
    if settings.grpc_reflection:
        info = Reflection(services.typed, {claim.service for claim in claims}).ServerReflectionInfo
        for service in REFLECTION:
            services.add_streaming(
                "BIDI_STREAMING", service, "ServerReflectionInfo", ServerReflectionRequest, info
            )
    return services


class Services:
    """RPCs by path: those that every server has, and the typed ones of functions."""

    def __init__(
        self,
        dataplane: DataPlane,
        settings: Settings,
        meters: Meters,
        edges: Sequence[Edge],
        started: Callable[[], bool] | None,
    ) -> None:
        self._rpcs: dict[str, ServedRpc] = {}
        self._infer_requests = InferRequests(settings.max_json_values)
        self._started = started
        self._access = dataplane.access
        self._meters = meters
        self._profile = settings.status_profile
        self._edges = edges
        self.typed = self._typed(dataplane)

    def _around(self, service: str, method: str, action: Action = Action.INFER) -> Around:
        """The edges around an RPC, from the inside out."""
        path, infers = f"/{service}/{method}", action in (Action.INFER, Action.STREAM)
        return lambda serve: reduce(lambda served, edge: edge.rpc(path, served, infers), self._edges, serve)

    def find(self, path: str) -> ServedRpc | None:
        return self._rpcs.get(path) or self.typed.find(path)

    def add_inference(self, service: str, *parts: object) -> None:
        """Add the methods that one of the parts has."""
        for method in METHODS:
            name = method.name
            behaviour = next((getattr(part, name) for part in parts if hasattr(part, name)), None)
            if behaviour is None:
                continue
            request: RequestType[object] = classes_of(method)[0]
            if request is ModelInferRequest:
                request = self._infer_requests
            behaviour = self.when_started(behaviour)
            if method.client_streaming:
                self.add_streaming("BIDI_STREAMING", service, name, request, behaviour)
            else:
                self.add_unary(service, name, request, behaviour)

    def _typed(self, dataplane: DataPlane) -> TypedServices:
        """The typed RPCs of functions. The meters of an RPC stay when its model is loaded again."""
        meters: dict[tuple[str, str, str], RpcMeters] = {}

        def build(rpc: TypedRpc) -> ServedRpc:
            service, name = rpc.method.service, rpc.method.name
            kind = KINDS[rpc.method.stream is not None, rpc.method.streams]
            if (kind, service, name) not in meters:
                meters[kind, service, name] = self._meters.rpc(kind, service, name)
            rest = (Received, meters[kind, service, name], self._profile, self._around(service, name))
            if kind == "UNARY":
                return unary(self.when_started(rpc.infer), *rest)
            return streaming(self.when_started(rpc.stream), *rest)

        unready = self._meters.rpc("BIDI_STREAMING", "typed", "unready")
        around = self._around("typed", "unready")
        refusal = streaming(self.when_started(refuse), Received, unready, self._profile, around)
        return TypedServices(dataplane, build, refusal)

    def when_started(self, behaviour: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
        started = self._started
        if started is None:
            return behaviour

        def once_started(*arguments: Arguments.args, **options: Arguments.kwargs) -> Returned:
            if not started():
                raise NotStarted
            return behaviour(*arguments, **options)

        return once_started

    def add_unary(
        self, service: str, name: str, request: RequestType[Request], behaviour: Unary[Request]
    ) -> None:
        meters, action = self._meters.rpc("UNARY", service, name), ACTIONS[name]

        def asked(message: Request, context: RpcContext) -> Awaitable[Message | bytes]:
            model = None if action is Action.SHARED_MEMORY else model_named(message)
            self._access.check(action, caller_of(context, self._access), model)
            return behaviour(message, context)

        served = behaviour if action in UNASKED else asked
        rpc = unary(served, request, meters, self._profile, self._around(service, name, action))
        self._rpcs[rpc.path] = rpc

    def add_streaming(
        self,
        kind: str,
        service: str,
        name: str,
        request: RequestType[Request],
        behaviour: Streaming[Request],
        action: Action | None = None,
    ) -> None:
        meters, action = self._meters.rpc(kind, service, name), action or ACTIONS[name]

        def asked(exchange: RpcExchange[Request]) -> Awaitable[None]:
            self._access.check(action, caller_of(exchange.context, self._access))
            return behaviour(exchange)

        served = behaviour if action in UNASKED else asked
        rpc = streaming(served, request, meters, self._profile, self._around(service, name, action))
        self._rpcs[rpc.path] = rpc
