"""Client stubs, servicer base classes and registration functions, with the interface of generated code."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Never

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from inferstream.ext.rpc import METHODS, SERVICE

if TYPE_CHECKING:
    import grpc

LEGACY_SERVICE = "inference.model_repository.ModelRepositoryService"
"""An older MLServer service with the repository RPCs, with the same method names and messages."""

DIALECT = "x-stream-dialect"
"""The metadata key by which a client chooses the response type of a stream."""


def _message_classes(method: MethodDescriptor) -> tuple[type[Message], type[Message]]:
    """Return the request and response classes of an RPC."""
    return GetMessageClass(method.input_type), GetMessageClass(method.output_type)


class _Stub:
    service: str

    def __init__(self, channel: "grpc.Channel | grpc.aio.Channel") -> None:
        for method in _find_methods(self.service):
            request, response = _message_classes(method)
            connect = channel.stream_stream if method.client_streaming else channel.unary_unary
            callable_ = connect(
                f"/{self.service}/{method.name}",
                request_serializer=request.SerializeToString,
                response_deserializer=response.FromString,
            )
            streams = method.client_streaming
            setattr(self, method.name, _with_dialect(callable_) if streams else callable_)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{self.service} has no RPC {name}")


def _with_dialect(call: Callable[..., Any]) -> Callable[..., Any]:
    """Add metadata that requests responses of the stub's class.

    With raw contents, the server would send Triton responses.
    """

    def stream(
        request_iterator: Any = None, timeout: float | None = None, metadata: Any = None, **options: Any
    ) -> Any:
        pairs = tuple(metadata or ())
        if all(name.lower() != DIALECT for name, _ in pairs):
            pairs += ((DIALECT, "mlserver"),)
        return call(request_iterator, timeout=timeout, metadata=pairs, **options)

    return stream


class GRPCInferenceServiceStub(_Stub):
    """Callables for every RPC on `channel`, a `grpc.Channel` or `grpc.aio.Channel`."""

    service = SERVICE


class ModelRepositoryServiceStub(_Stub):
    """Callables for the repository RPCs of the older service."""

    service = LEGACY_SERVICE


def _find_methods(service: str) -> list[MethodDescriptor]:
    if service == SERVICE:
        return METHODS
    return [method for method in METHODS if method.name.startswith("Repository")]


def _unimplemented_rpc(method: MethodDescriptor) -> Callable[..., Never]:
    def rpc(self: object, request: object, context: "grpc.ServicerContext") -> Never:
        _refuse(context)

    def streaming_rpc(self: object, request_iterator: object, context: "grpc.ServicerContext") -> Never:
        _refuse(context)

    return streaming_rpc if method.client_streaming else rpc


def _refuse(context: "grpc.ServicerContext") -> Never:
    import grpc

    context.set_code(grpc.StatusCode.UNIMPLEMENTED)
    context.set_details("Method not implemented!")
    raise NotImplementedError("Method not implemented!")


class GRPCInferenceServiceServicer:
    """Base class of servicers, with one method per RPC.

    Methods that are not overridden fail with UNIMPLEMENTED.
    """


class ModelRepositoryServiceServicer:
    """Base class of servicers for the repository RPCs of the older service."""


for _servicer, _service in (
    (GRPCInferenceServiceServicer, SERVICE),
    (ModelRepositoryServiceServicer, LEGACY_SERVICE),
):
    for _method in _find_methods(_service):
        setattr(_servicer, _method.name, _unimplemented_rpc(_method))


def add_GRPCInferenceServiceServicer_to_server(
    servicer: object, server: "grpc.Server | grpc.aio.Server"
) -> None:
    """Register the RPCs that `servicer` has methods for."""
    _add(SERVICE, servicer, server)


def add_ModelRepositoryServiceServicer_to_server(
    servicer: object, server: "grpc.Server | grpc.aio.Server"
) -> None:
    """Register the RPCs that `servicer` has methods for, under the older service."""
    _add(LEGACY_SERVICE, servicer, server)


def _add(service: str, servicer: object, server: "grpc.Server | grpc.aio.Server") -> None:
    import grpc

    handlers = {}
    for method in _find_methods(service):
        behaviour = getattr(servicer, method.name, None)
        if behaviour is None:
            continue
        request, response = _message_classes(method)
        kind = (
            grpc.stream_stream_rpc_method_handler
            if method.client_streaming
            else grpc.unary_unary_rpc_method_handler
        )
        handlers[method.name] = kind(
            behaviour, request_deserializer=request.FromString, response_serializer=response.SerializeToString
        )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
