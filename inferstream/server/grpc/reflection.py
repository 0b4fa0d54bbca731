"""The standard reflection service, v1 and v1alpha, for grpcurl and similar clients."""

from collections.abc import Iterator

import grpc
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from ...protos.pool import HEALTH, POOL, REFLECTION, SERVICE
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

SERVICES = sorted((SERVICE, HEALTH, *REFLECTION))


class Reflection:
    """Describes the services from the descriptor pool."""

    async def ServerReflectionInfo(self, exchange: RpcExchange[ServerReflectionRequest]) -> None:
        async for request in exchange:
            response = _response_to(request)
            response.original_request.CopyFrom(request)
            await exchange.write(response.SerializeToString())


def _response_to(request: ServerReflectionRequest) -> ServerReflectionResponse:
    try:
        match request.WhichOneof("message_request"):
            case "file_by_filename":
                return _files(POOL.FindFileByName(request.file_by_filename))
            case "file_containing_symbol":
                return _files(_file_of(request.file_containing_symbol))
            case "file_containing_extension":
                return _file_of_extension(request.file_containing_extension)
            case "all_extension_numbers_of_type":
                return _extensions_of(request.all_extension_numbers_of_type)
            case "list_services":
                services = ListServiceResponse(service=[{"name": name} for name in SERVICES])
                return ServerReflectionResponse(list_services_response=services)
    except KeyError:
        return _error(grpc.StatusCode.NOT_FOUND)
    return _error(grpc.StatusCode.INVALID_ARGUMENT)


def _file_of(symbol: str) -> FileDescriptor:
    """The file that defines a message, a service or a method. Raises KeyError."""
    service, _, method = symbol.rpartition(".")
    try:
        return POOL.FindFileContainingSymbol(symbol)
    except KeyError:
        return POOL.FindServiceByName(service).methods_by_name[method].containing_service.file


def _file_of_extension(request: ExtensionRequest) -> ServerReflectionResponse:
    message = POOL.FindMessageTypeByName(request.containing_type)
    extension = POOL.FindExtensionByNumber(message, request.extension_number)
    return _files(POOL.FindFileContainingSymbol(extension.full_name))


def _extensions_of(name: str) -> ServerReflectionResponse:
    message = POOL.FindMessageTypeByName(name)
    numbers = sorted(extension.number for extension in POOL.FindAllExtensions(message))
    found = ExtensionNumberResponse(base_type_name=message.full_name, extension_number=numbers)
    return ServerReflectionResponse(all_extension_numbers_response=found)


def _files(file: FileDescriptor) -> ServerReflectionResponse:
    found = FileDescriptorResponse(file_descriptor_proto=[*_serialized(file, set())])
    return ServerReflectionResponse(file_descriptor_response=found)


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


def _error(code: grpc.StatusCode) -> ServerReflectionResponse:
    number, text = code.value
    return ServerReflectionResponse(error_response=ErrorResponse(error_code=number, error_message=text))
