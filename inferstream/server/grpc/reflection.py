"""The standard reflection service, v1 and v1alpha, for grpcurl and similar clients."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool

from ...protos.pool import HEALTH, POOL, REFLECTION, REQUESTS, SERVICE
from ...protos.reflection_pb2 import (
    ErrorResponse,
    ExtensionNumberResponse,
    ExtensionRequest,
    FileDescriptorResponse,
    ListServiceResponse,
    ServerReflectionRequest,
    ServerReflectionResponse,
)
from .rpc import RpcExchange
from .statuses import StatusCode
from .typed import TypedServices

SERVICES = (SERVICE, REQUESTS, HEALTH, *REFLECTION)

Result = TypeVar("Result")


class Reflection:
    """Describes the services from their descriptor pools."""

    def __init__(self, typed: TypedServices, joining: Iterable[str] = ()) -> None:
        """`joining` are the services of plug-ins."""
        self._typed = typed
        self._services = (*SERVICES, *joining)

    async def ServerReflectionInfo(self, exchange: RpcExchange[ServerReflectionRequest]) -> None:
        async for request in exchange:
            response = self._response_to(request)
            response.original_request.CopyFrom(request)
            await exchange.write(response.SerializeToString())

    def _response_to(self, request: ServerReflectionRequest) -> ServerReflectionResponse:
        try:
            match request.WhichOneof("message_request"):
                case "file_by_filename":
                    name = request.file_by_filename
                    return _files(self._from_pools(lambda pool: pool.FindFileByName(name)))
                case "file_containing_symbol":
                    symbol = request.file_containing_symbol
                    return _files(self._from_pools(lambda pool: _file_of(pool, symbol)))
                case "file_containing_extension":
                    return _file_of_extension(request.file_containing_extension)
                case "all_extension_numbers_of_type":
                    name = request.all_extension_numbers_of_type
                    return self._from_pools(lambda pool: _extensions_of(pool, name))
                case "list_services":
                    names = sorted((*self._services, *self._typed.names))
                    services = ListServiceResponse(service=[{"name": name} for name in names])
                    return ServerReflectionResponse(list_services_response=services)
        except KeyError:
            return _error(StatusCode.NOT_FOUND)
        return _error(StatusCode.INVALID_ARGUMENT)

    def _from_pools(self, look: Callable[[DescriptorPool], Result]) -> Result:
        """What the first pool has that has it. Raises KeyError."""
        for pool in (POOL, *self._typed.pools):
            try:
                return look(pool)
            except KeyError:
                continue
        raise KeyError


def _file_of(pool: DescriptorPool, symbol: str) -> FileDescriptor:
    """The file that defines a message, a service or a method. Raises KeyError."""
    service, _, method = symbol.rpartition(".")
    try:
        return pool.FindFileContainingSymbol(symbol)
    except KeyError:
        return pool.FindServiceByName(service).methods_by_name[method].containing_service.file


def _file_of_extension(request: ExtensionRequest) -> ServerReflectionResponse:
    message = POOL.FindMessageTypeByName(request.containing_type)
    extension = POOL.FindExtensionByNumber(message, request.extension_number)
    return _files(POOL.FindFileContainingSymbol(extension.full_name))


def _extensions_of(pool: DescriptorPool, name: str) -> ServerReflectionResponse:
    message = pool.FindMessageTypeByName(name)
    numbers = sorted(extension.number for extension in pool.FindAllExtensions(message))
    extensions = ExtensionNumberResponse(base_type_name=message.full_name, extension_number=numbers)
    return ServerReflectionResponse(all_extension_numbers_response=extensions)


def _files(file: FileDescriptor) -> ServerReflectionResponse:
    files = FileDescriptorResponse(file_descriptor_proto=[*_serialized(file, set())])
    return ServerReflectionResponse(file_descriptor_response=files)


def _serialized(file: FileDescriptor, seen: set[str]) -> Iterator[bytes]:
    """The descriptors of a file and of its imports, each once."""
    if file.name in seen:
        return
    seen.add(file.name)
    proto = FileDescriptorProto()
    file.CopyToProto(proto)
    yield proto.SerializeToString()
    for imported in file.dependencies:
        yield from _serialized(imported, seen)


def _error(code: StatusCode) -> ServerReflectionResponse:
    error = ErrorResponse(error_code=code, error_message=code.name.lower().replace("_", " "))
    return ServerReflectionResponse(error_response=error)
