"""Client stubs, and what a server needs to add a servicer, as generated code offers them."""

from typing import Any

from . import messages
from .messages import POOL, SERVICE

METHODS: list[Any] = list(POOL.FindServiceByName(SERVICE).methods)
"""Descriptors of every RPC of the service."""


def classes_of(method: Any) -> tuple[Any, Any]:
    """The request and the response class of an RPC."""
    return getattr(messages, method.input_type.name), getattr(messages, method.output_type.name)


class GRPCInferenceServiceStub:
    """Callables for every RPC on `channel`, a `grpc.Channel` or `grpc.aio.Channel`."""

    def __init__(self, channel: Any) -> None:
        for method in METHODS:
            request, response = classes_of(method)
            connect = channel.stream_stream if method.client_streaming else channel.unary_unary
            callable_ = connect(
                f"/{SERVICE}/{method.name}",
                request_serializer=request.SerializeToString,
                response_deserializer=response.FromString,
            )
            setattr(self, method.name, callable_)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{SERVICE} has no RPC {name}")


class GRPCInferenceServiceServicer:
    """Base of servicers: each RPC is a method of its name, and those not overridden are unimplemented."""


def add_GRPCInferenceServiceServicer_to_server(servicer: Any, server: Any) -> None:
    """Register the RPCs that `servicer` has methods for."""
    import grpc

    handlers = {}
    for method in METHODS:
        behaviour = getattr(servicer, method.name, None)
        if behaviour is None:
            continue
        request, response = classes_of(method)
        kind = (
            grpc.stream_stream_rpc_method_handler
            if method.client_streaming
            else grpc.unary_unary_rpc_method_handler
        )
        handlers[method.name] = kind(
            behaviour, request_deserializer=request.FromString, response_serializer=response.SerializeToString
        )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
