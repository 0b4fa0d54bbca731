"""All gRPC services, as RPCs for any engine."""

from collections.abc import Awaitable, Callable, Sequence
from functools import reduce
from typing import ParamSpec, TypeVar

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from ...dataplane.access import Action
from ...dataplane.dataplane import DataPlane
from ...errors import InvalidSettings, NotStarted
from ...extensions.entries import RPCS
from ...extensions.loading import leave_out, load_group
from ...protos.dataplane_pb2 import ModelInferRequest
from ...protos.grpc_requests import InferRequests
from ...settings import Settings
from ...telemetry.metrics import Meters
from ...telemetry.rpcs import RpcMeters
from ..edge import Edge
from .context import RpcContext, caller_of
from .control import RepositoryService, RequestsService, get_model_name
from .health import Health
from .inference import InferenceService
from .reflection import Reflection
from .rpc import Around, RequestType, Rpc, RpcExchange, Rpcs, Streaming, Unary, build_streaming, build_unary
from .service import RpcService
from .stream import StreamService
from .typed import Received, TypedRpc, TypedServices, refuse

KINDS = {
    (False, False): "UNARY",
    (False, True): "SERVER_STREAMING",
    (True, False): "CLIENT_STREAMING",
    (True, True): "BIDI_STREAMING",
}
"""Kinds of RPCs in metrics, by whether the client and the server stream."""

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


def build_services(
    dataplane: DataPlane,
    settings: Settings,
    meters: Meters,
    edges: Sequence[Edge],
    started: Callable[[], bool] | None = None,
) -> Rpcs:
    """Build the RPCs of every service.

    Until `started()` is true, RPCs of services with `needs_start` return UNAVAILABLE. An invalid service of a
    plug-in is skipped. In strict mode, it raises InvalidSettings.
    """
    services = Services(dataplane, settings, meters, edges, started)
    services.add(InferenceService(dataplane))
    services.add(StreamService(dataplane, settings))
    services.add(RepositoryService(dataplane))
    services.add(RequestsService(dataplane))
    services.add(Health(dataplane, services.typed))
    for plugin, build in load_group(RPCS, settings.strict):
        try:
            service = build(dataplane, settings, meters)
            if not isinstance(service, RpcService | None):
                raise TypeError(f"it gives a {type(service).__name__}, not an RpcService")
            if service is not None:
                services.add(service)
        except Exception as error:
            leave_out(plugin, error, settings.strict)
    if settings.grpc_reflection:
        services.add(Reflection(services.typed, services.services))
    return services


class Services:
    """RPCs by path: the services of every server, and the typed RPCs of functions."""

    def __init__(
        self,
        dataplane: DataPlane,
        settings: Settings,
        meters: Meters,
        edges: Sequence[Edge],
        started: Callable[[], bool] | None,
    ) -> None:
        self.services: list[RpcService] = []
        self._rpcs: dict[str, Rpc] = {}
        self._infer_requests = InferRequests(settings.max_json_values)
        self._started = started
        self._access = dataplane.access
        self._meters = meters
        self._profile = settings.status_profile
        self._edges = edges
        self.typed = self._build_typed_services(dataplane)

    def _wrap(self, service: str, method: str, is_inference: bool = True) -> Around:
        """Return a function that wraps an RPC in the edges, from the inside out."""
        path = f"/{service}/{method}"
        return lambda serve: reduce(
            lambda served, edge: edge.rpc(path, served, is_inference), self._edges, serve
        )

    def find(self, path: str) -> Rpc | None:
        return self._rpcs.get(path) or self.typed.find(path)

    def add(self, service: RpcService) -> None:
        """Add the RPCs of a service.

        Raises InvalidSettings, without adding any, if another service already has one of them.
        """
        rpcs: dict[str, Rpc] = {}
        for method, action in service.actions.items():
            for name in service.names:
                rpc = self._build(service, name, service.descriptor.methods_by_name[method], action)
                rpcs[rpc.path] = rpc
        if taken := rpcs.keys() & self._rpcs.keys():
            raise InvalidSettings(f"another service has the RPC {min(taken)}")
        self._rpcs |= rpcs
        self.services.append(service)

    def _build(self, service: RpcService, name: str, method: MethodDescriptor, action: Action) -> Rpc:
        behaviour = getattr(service, method.name)
        if service.needs_start:
            behaviour = self.require_start(behaviour)
        kind = KINDS[method.client_streaming, method.server_streaming]
        if action not in self._access.open and method.name not in service.own_checks:
            check = self._with_check if kind == "UNARY" else self._with_stream_check
            behaviour = check(behaviour, action, service.of_models)
        request: RequestType[object] = GetMessageClass(method.input_type)
        if request is ModelInferRequest:
            request = self._infer_requests
        meters = self._meters.rpc(kind, name, method.name)
        around = self._wrap(name, method.name, action in (Action.INFER, Action.STREAM))
        build = build_unary if kind == "UNARY" else build_streaming
        return build(behaviour, request, meters, self._profile, around)

    def _with_check(self, behaviour: Unary[object], action: Action, of_models: bool) -> Unary[object]:
        def check_and_call(message: object, context: RpcContext) -> Awaitable[Message | bytes]:
            model = get_model_name(message) if of_models else None
            self._access.check(action, caller_of(context, self._access), model)
            return behaviour(message, context)

        return check_and_call

    def _with_stream_check(self, behaviour: Streaming[object], action: Action, _: bool) -> Streaming[object]:
        def check_and_call(exchange: RpcExchange[object]) -> Awaitable[None]:
            self._access.check(action, caller_of(exchange.context, self._access))
            return behaviour(exchange)

        return check_and_call

    def _build_typed_services(self, dataplane: DataPlane) -> TypedServices:
        """Build the typed RPCs of functions. An RPC has the same metrics after its model is reloaded."""
        meters: dict[tuple[str, str, str], RpcMeters] = {}

        def build(rpc: TypedRpc) -> Rpc:
            service, name = rpc.method.service, rpc.method.name
            kind = KINDS[rpc.method.stream is not None, rpc.method.streams]
            if (kind, service, name) not in meters:
                meters[kind, service, name] = self._meters.rpc(kind, service, name)
            rest = (Received, meters[kind, service, name], self._profile, self._wrap(service, name))
            if kind == "UNARY":
                return build_unary(self.require_start(rpc.infer), *rest)
            return build_streaming(self.require_start(rpc.stream), *rest)

        unready = self._meters.rpc("BIDI_STREAMING", "typed", "unready")
        around = self._wrap("typed", "unready")
        refusal = build_streaming(self.require_start(refuse), Received, unready, self._profile, around)
        return TypedServices(dataplane, build, refusal)

    def require_start(self, behaviour: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
        started = self._started
        if started is None:
            return behaviour

        def call_once_running(*arguments: Arguments.args, **options: Arguments.kwargs) -> Returned:
            if not started():
                raise NotStarted
            return behaviour(*arguments, **options)

        return call_once_running
