"""A gRPC client that knows no more of a server than its reflection service tells."""

from collections.abc import Iterable, Iterator
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest, ServerReflectionResponse

VERSIONS = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")


class Reflected:
    """The services of a server, as the reflection service of a version describes them."""

    def __init__(self, channel: grpc.Channel, version: str = VERSIONS[0]) -> None:
        self.channel = channel
        self._ask = channel.stream_stream(
            f"/{version}/ServerReflectionInfo",
            ServerReflectionRequest.SerializeToString,
            ServerReflectionResponse.FromString,
        )

    def _answer(self, **request: str) -> ServerReflectionResponse:
        [answer] = self._ask(iter([ServerReflectionRequest(**request)]), timeout=20)
        return answer

    def services(self) -> list[str]:
        return [service.name for service in self._answer(list_services="*").list_services_response.service]

    def files(self, symbol: str) -> list[FileDescriptorProto]:
        answer = self._answer(file_containing_symbol=symbol)
        return [
            FileDescriptorProto.FromString(file)
            for file in answer.file_descriptor_response.file_descriptor_proto
        ]

    def method(self, service: str, name: str) -> MethodDescriptor:
        pool = DescriptorPool()
        for file in self.files(service):
            pool.Add(file)
        return pool.FindServiceByName(service).methods_by_name[name]

    def service(self, name: str = "inferstream.App") -> "Service":
        return Service(self, name)


class Service:
    """The methods of a service, called by name with the fields of their requests."""

    def __init__(self, reflected: Reflected, name: str) -> None:
        self._channel = reflected.channel
        self._name = name
        pool = DescriptorPool()
        for file in reflected.files(name):
            pool.Add(file)
        self.methods = pool.FindServiceByName(name).methods_by_name

    def request(self, method: str, **fields: Any) -> Message:
        return GetMessageClass(self.methods[method].input_type)(**fields)

    def rpc(self, method: str, raw: bool = False) -> Any:
        """The callable of the method's own kind. With `raw` it takes bytes."""
        found = self.methods[method]
        kind = "_".join(
            "stream" if streams else "unary" for streams in (found.client_streaming, found.server_streaming)
        )
        response = GetMessageClass(found.output_type)
        serialize = None if raw else lambda message: message.SerializeToString()
        return getattr(self._channel, kind)(f"/{self._name}/{method}", serialize, response.FromString)

    def call(self, method: str, *, timeout: float = 20, metadata: Any = None, **fields: Any) -> Any:
        """The only response, or the iterator of the responses."""
        return self.rpc(method)(self.request(method, **fields), timeout=timeout, metadata=metadata)

    def stream(self, method: str, requests: Iterable[dict[str, Any]], **options: Any) -> Any:
        """The same for a method whose client streams."""

        def messages() -> Iterator[Message]:
            for fields in requests:
                yield self.request(method, **fields)

        return self.rpc(method)(messages(), timeout=20, **options)
