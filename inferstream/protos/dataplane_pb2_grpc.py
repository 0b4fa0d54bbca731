"""The client stub and the service's RPCs, with the interface of generated code."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from .dialects import HEADER
from .pool import POOL, SERVICE

if TYPE_CHECKING:
    import grpc

METHODS: list[MethodDescriptor] = list(POOL.FindServiceByName(SERVICE).methods)
"""The descriptor of every RPC of the service."""


def get_message_classes(method: MethodDescriptor) -> tuple[type[Message], type[Message]]:
    """Return the request and the response class of an RPC."""
    return GetMessageClass(method.input_type), GetMessageClass(method.output_type)


class GRPCInferenceServiceStub:
    """Callables for every RPC on `channel`, a `grpc.Channel` or `grpc.aio.Channel`, as in generated code."""

    def __init__(self, channel: "grpc.Channel | grpc.aio.Channel") -> None:
        for method in METHODS:
            request, response = get_message_classes(method)
            connect = channel.stream_stream if method.client_streaming else channel.unary_unary
            callable_ = connect(
                f"/{SERVICE}/{method.name}",
                request_serializer=request.SerializeToString,
                response_deserializer=response.FromString,
            )
            streams = method.client_streaming
            setattr(self, method.name, _with_dialect(callable_) if streams else callable_)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{SERVICE} has no RPC {name}")


def _with_dialect(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a streaming call so that it requests responses of the stub's class.

    Otherwise, the server sends Triton responses to requests with raw contents.
    """

    def stream(
        request_iterator: Any = None, timeout: float | None = None, metadata: Any = None, **options: Any
    ) -> Any:
        pairs = tuple(metadata or ())
        if all(name.lower() != HEADER for name, _ in pairs):
            pairs += ((HEADER, "mlserver"),)
        return call(request_iterator, timeout=timeout, metadata=pairs, **options)

    return stream
