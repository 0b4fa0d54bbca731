"""Registers the RPCs with Ray Serve's gRPC servers, as bytes.

Ray cannot pickle messages from a custom descriptor pool.
"""

from typing import Any

import grpc

from inferstream.ext.rpc import METHODS, SERVICE, TYPED_PREFIX
from inferstream.plugins.kubernetes.orca import SERVICE as ORCA

LEGACY_SERVICE = "inference.model_repository.ModelRepositoryService"
"""An older MLServer service with the repository RPCs."""

HEALTH = "grpc.health.v1.Health"
REFLECTION = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")
CANCEL = "/inferstream.control.Requests/Cancel"


def _placeholder(*_: object) -> None:
    """A placeholder for an RPC handler, which Ray Serve replaces."""


UNARY = grpc.unary_unary_rpc_method_handler(_placeholder)
ANSWERED = grpc.unary_stream_rpc_method_handler(_placeholder)
STREAM = grpc.stream_stream_rpc_method_handler(_placeholder)

METHOD_KINDS = {
    **{f"/{SERVICE}/{each.name}": STREAM if each.client_streaming else UNARY for each in METHODS},
    **{f"/{LEGACY_SERVICE}/{each.name}": UNARY for each in METHODS if each.name.startswith("Repository")},
    CANCEL: UNARY,
    f"/{HEALTH}/Check": UNARY,
    f"/{HEALTH}/List": UNARY,
    f"/{HEALTH}/Watch": ANSWERED,
    f"/{ORCA}/StreamCoreMetrics": ANSWERED,
    **{f"/{service}/ServerReflectionInfo": STREAM for service in REFLECTION},
}


class RpcPath(str):
    """The path of an RPC. Ray Serve uses the part after the last slash as the name of a replica method.

    Typed RPCs of two services can have the same name, so the whole path is returned instead.
    """

    __slots__ = ()

    def split(self, sep: Any = None, maxsplit: Any = -1) -> list[str]:
        return [*super().split(sep, maxsplit)[:-1], str(self)]


class RpcServices(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # generic only for type checkers
    """The RPCs of every server, and any typed RPC. Only a replica can check whether a typed RPC exists."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._method_handlers: Any = {RpcPath(path): kind for path, kind in METHOD_KINDS.items()}
        """Ray Serve reads and replaces this attribute."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        path = handler_call_details.method
        known = self._method_handlers.get(path)
        if known is None and path.rpartition("/")[2].startswith(TYPED_PREFIX):
            known = self._server._override_method_handler(RpcPath(path), STREAM)
        return known


def add_services(servicer: object, server: Any) -> None:
    """Add the RPCs to a Ray Serve gRPC server. Set it in `grpc_options.grpc_servicer_functions`."""
    server.add_generic_rpc_handlers((RpcServices(server),))
