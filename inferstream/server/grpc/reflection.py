"""The standard reflection service, v1 and v1alpha: what grpcurl and its like ask a server for."""

from collections.abc import Iterator
from typing import Any

import grpc
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from ...protos.messages import POOL, SERVICE
from ...protos.standard import (
    HEALTH,
    REFLECTION,
    ErrorResponse,
    ExtensionNumberResponse,
    FileDescriptorResponse,
    ListServiceResponse,
    ServerReflectionResponse,
)
from .rpc import RpcExchange

SERVICES = sorted((SERVICE, HEALTH, *REFLECTION))


class Reflection:
    """Describes the services out of the pool that holds their messages."""

    async def ServerReflectionInfo(self, exchange: RpcExchange) -> None:  # noqa: N802  # the RPC's name
        async for request in exchange:
            response = ServerReflectionResponse(original_request=request, **_response_field(request))
            await exchange.write(response.SerializeToString())


def _response_field(request: Any) -> dict[str, Any]:
    """The field of the response that a request is answered with."""
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
                return {
                    "list_services_response": ListServiceResponse(service=[{"name": n} for n in SERVICES])
                }
    except KeyError:
        return _error(grpc.StatusCode.NOT_FOUND)
    return _error(grpc.StatusCode.INVALID_ARGUMENT)


def _file_of(symbol: str) -> Any:
    """The file that defines a message, a service or a method. Raises KeyError."""
    service, _, method = symbol.rpartition(".")
    try:
        return POOL.FindFileContainingSymbol(symbol)
    except KeyError:
        return POOL.FindServiceByName(service).methods_by_name[method].containing_service.file


def _file_of_extension(asked: Any) -> dict[str, Any]:
    message = POOL.FindMessageTypeByName(asked.containing_type)
    extension = POOL.FindExtensionByNumber(message, asked.extension_number)
    return _files(POOL.FindFileContainingSymbol(extension.full_name))


def _extensions_of(name: str) -> dict[str, Any]:
    message = POOL.FindMessageTypeByName(name)
    numbers = sorted(extension.number for extension in POOL.FindAllExtensions(message))
    found = ExtensionNumberResponse(base_type_name=message.full_name, extension_number=numbers)
    return {"all_extension_numbers_response": found}


def _files(file: Any) -> dict[str, Any]:
    found = FileDescriptorResponse(file_descriptor_proto=[*_serialized(file, set())])
    return {"file_descriptor_response": found}


def _serialized(file: Any, seen: set[str]) -> Iterator[bytes]:
    """A file and what it imports, each once."""
    if file.name in seen:
        return
    seen.add(file.name)
    proto = FileDescriptorProto()
    file.CopyToProto(proto)
    yield proto.SerializeToString()
    for imported in file.dependencies:
        yield from _serialized(imported, seen)


def _error(code: grpc.StatusCode) -> dict[str, Any]:
    number, text = code.value
    return {"error_response": ErrorResponse(error_code=number, error_message=text)}
