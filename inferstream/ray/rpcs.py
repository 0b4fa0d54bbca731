"""Registers the RPCs at Serve's gRPC servers, as bytes: Ray cannot pickle messages of a descriptor pool of our own."""

from typing import Any

import grpc

from inferstream.ext.rpc import METHODS, SERVICE, TYPED_PREFIX

from ..server.orca import SERVICE as ORCA

LEGACY_SERVICE = "inference.model_repository.ModelRepositoryService"
"""MLServer's older service of the repository RPCs."""

HEALTH = "grpc.health.v1.Health"
REFLECTION = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")
CANCEL = "/inferstream.control.Requests/Cancel"


def _replaced(*_: object) -> None:
    """The behaviour of a handler before Serve replaces it."""


UNARY = grpc.unary_unary_rpc_method_handler(_replaced)
ANSWERED = grpc.unary_stream_rpc_method_handler(_replaced)
STREAM = grpc.stream_stream_rpc_method_handler(_replaced)

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
    """The path of an RPC. Serve takes what follows the last slash for the name of a replica's method.

    Typed RPCs of two services may have the same name, so it gets the whole path instead.
    """

    __slots__ = ()

    def split(self, sep: Any = None, maxsplit: Any = -1) -> list[str]:
        return [*super().split(sep, maxsplit)[:-1], str(self)]


class RpcServices(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # generic for type checkers alone
    """The RPCs that every server has, and any that may be typed, which only a replica knows."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._method_handlers: Any = {RpcPath(path): kind for path, kind in METHOD_KINDS.items()}
        """Serve reads and replaces these by this name."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        path = handler_call_details.method
        known = self._method_handlers.get(path)
        if known is None and path.rpartition("/")[2].startswith(TYPED_PREFIX):
            known = self._server._override_method_handler(RpcPath(path), STREAM)
        return known


def add_services(servicer: object, server: Any) -> None:
    """A servicer function: name it in `grpc_options.grpc_servicer_functions`."""
    server.add_generic_rpc_handlers((RpcServices(server),))
