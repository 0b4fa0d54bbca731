"""The services, as the RPCs that any engine serves."""

from collections.abc import Awaitable, Callable, Sequence
from functools import reduce
from typing import ParamSpec, TypeVar

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from ...dataplane.access import Action
from ...dataplane.dataplane import DataPlane
from ...errors import InvalidSettings, NotStarted
from ...extensions import RPCS, leave_out, loaded
from ...protos.dataplane_pb2 import ModelInferRequest
from ...protos.grpc_requests import InferRequests
from ...settings import Settings
from ...telemetry.metrics import Meters
from ...telemetry.rpcs import RpcMeters
from ..edge import Edge
from .context import RpcContext, caller_of
from .control import RepositoryService, RequestsService, model_named
from .health import Health
from .inference import InferenceService
from .reflection import Reflection
from .rpc import Around, RequestType, RpcExchange, Rpcs, ServedRpc, Streaming, Unary, streaming, unary
from .service import RpcService
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


def build_services(
    dataplane: DataPlane,
    settings: Settings,
    meters: Meters,
    edges: Sequence[Edge],
    started: Callable[[], bool] | None = None,
) -> Rpcs:
    """The RPCs of every service. Until all is `started`, each inference RPC is UNAVAILABLE.

    A service of another package that cannot be used is left out. Raises InvalidSettings for it in strict mode.
    """
    services = Services(dataplane, settings, meters, edges, started)
    services.add(InferenceService(dataplane))
    services.add(StreamService(dataplane, settings))
    services.add(RepositoryService(dataplane))
    services.add(RequestsService(dataplane))
    services.add(Health(dataplane, services.typed))
    for plugin, build in loaded(RPCS, settings.strict):
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
    """RPCs by path: those that every server has, and the typed ones of functions."""

    def __init__(
        self,
        dataplane: DataPlane,
        settings: Settings,
        meters: Meters,
        edges: Sequence[Edge],
        started: Callable[[], bool] | None,
    ) -> None:
        self.services: list[RpcService] = []
        self._rpcs: dict[str, ServedRpc] = {}
        self._infer_requests = InferRequests(settings.max_json_values)
        self._started = started
        self._access = dataplane.access
        self._meters = meters
        self._profile = settings.status_profile
        self._edges = edges
        self.typed = self._typed(dataplane)

    def _around(self, service: str, method: str, is_inference: bool = True) -> Around:
        """The edges around an RPC, from the inside out."""
        path = f"/{service}/{method}"
        return lambda serve: reduce(
            lambda served, edge: edge.rpc(path, served, is_inference), self._edges, serve
        )

    def find(self, path: str) -> ServedRpc | None:
        return self._rpcs.get(path) or self.typed.find(path)

    def add(self, service: RpcService) -> None:
        """Add the RPCs of a service. Raises InvalidSettings, and adds none, where another service has one of them."""
        rpcs: dict[str, ServedRpc] = {}
        for method, action in service.actions.items():
            for name in service.names:
                rpc = self._build(service, name, service.descriptor.methods_by_name[method], action)
                rpcs[rpc.path] = rpc
        if taken := rpcs.keys() & self._rpcs.keys():
            raise InvalidSettings(f"another service has the RPC {min(taken)}")
        self._rpcs |= rpcs
        self.services.append(service)

    def _build(self, service: RpcService, name: str, method: MethodDescriptor, action: Action) -> ServedRpc:
        behaviour = getattr(service, method.name)
        if service.needs_start:
            behaviour = self.when_started(behaviour)
        kind = KINDS[method.client_streaming, method.server_streaming]
        if action not in self._access.open and method.name not in service.own_checks:
            check = self._checked if kind == "UNARY" else self._checked_stream
            behaviour = check(behaviour, action, service.of_models)
        request: RequestType[object] = GetMessageClass(method.input_type)
        if request is ModelInferRequest:
            request = self._infer_requests
        meters = self._meters.rpc(kind, name, method.name)
        around = self._around(name, method.name, action in (Action.INFER, Action.STREAM))
        build = unary if kind == "UNARY" else streaming
        return build(behaviour, request, meters, self._profile, around)

    def _checked(self, behaviour: Unary[object], action: Action, of_models: bool) -> Unary[object]:
        def checked(message: object, context: RpcContext) -> Awaitable[Message | bytes]:
            model = model_named(message) if of_models else None
            self._access.check(action, caller_of(context, self._access), model)
            return behaviour(message, context)

        return checked

    def _checked_stream(self, behaviour: Streaming[object], action: Action, _: bool) -> Streaming[object]:
        def checked(exchange: RpcExchange[object]) -> Awaitable[None]:
            self._access.check(action, caller_of(exchange.context, self._access))
            return behaviour(exchange)

        return checked

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
