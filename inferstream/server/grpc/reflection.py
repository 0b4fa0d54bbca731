"""The standard reflection service, v1 and v1alpha, for grpcurl and similar clients."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool

from ...dataplane.access import Action
from ...protos import reflection_pb2
from ...protos.pool import POOL, REFLECTION
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
from .service import RpcService
from .statuses import StatusCode
from .typed import TypedServices

Result = TypeVar("Result")


class Reflection(RpcService):
    """Describes the given services, the typed services and itself, from their descriptor pools."""

    descriptor = reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"]
    aliases = REFLECTION[1:]
    actions = {"ServerReflectionInfo": Action.REFLECTION}
    needs_start = False

    def __init__(self, typed: TypedServices, services: Iterable[RpcService]) -> None:
        self._typed = typed
        described = (*services, self)
        self._pools = [*dict.fromkeys(service.descriptor.file.pool for service in described)]
        names = {name for service in described for name in service.names}
        self._services = [name for name in names if _has_descriptor(name, self._pools)]

    async def ServerReflectionInfo(self, exchange: RpcExchange[ServerReflectionRequest]) -> None:
        async for request in exchange:
            response = self._build_response(request)
            response.original_request.CopyFrom(request)
            await exchange.write(response.SerializeToString())

    def _build_response(self, request: ServerReflectionRequest) -> ServerReflectionResponse:
        try:
            match request.WhichOneof("message_request"):
                case "file_by_filename":
                    name = request.file_by_filename
                    return _build_file_response(self._look_up(lambda pool: pool.FindFileByName(name)))
                case "file_containing_symbol":
                    symbol = request.file_containing_symbol
                    return _build_file_response(self._look_up(lambda pool: _find_file(pool, symbol)))
                case "file_containing_extension":
                    return _find_extension_file(request.file_containing_extension)
                case "all_extension_numbers_of_type":
                    name = request.all_extension_numbers_of_type
                    return self._look_up(lambda pool: _list_extensions(pool, name))
                case "list_services":
                    names = sorted((*self._services, *self._typed.names))
                    services = ListServiceResponse(service=[{"name": name} for name in names])
                    return ServerReflectionResponse(list_services_response=services)
        except KeyError:
            return _build_error_response(StatusCode.NOT_FOUND)
        return _build_error_response(StatusCode.INVALID_ARGUMENT)

    def _look_up(self, look: Callable[[DescriptorPool], Result]) -> Result:
        """Return the result of the first pool for which `look` succeeds. Raises KeyError."""
        for pool in (*self._pools, *self._typed.pools):
            try:
                return look(pool)
            except KeyError:
                continue
        raise KeyError


def _has_descriptor(service: str, pools: Iterable[DescriptorPool]) -> bool:
    for pool in pools:
        try:
            return pool.FindServiceByName(service) is not None
        except KeyError:
            continue
    return False


def _find_file(pool: DescriptorPool, symbol: str) -> FileDescriptor:
    """Return the file that defines a message, a service or a method. Raises KeyError."""
    service, _, method = symbol.rpartition(".")
    try:
        return pool.FindFileContainingSymbol(symbol)
    except KeyError:
        return pool.FindServiceByName(service).methods_by_name[method].containing_service.file


def _find_extension_file(request: ExtensionRequest) -> ServerReflectionResponse:
    message = POOL.FindMessageTypeByName(request.containing_type)
    extension = POOL.FindExtensionByNumber(message, request.extension_number)
    return _build_file_response(POOL.FindFileContainingSymbol(extension.full_name))


def _list_extensions(pool: DescriptorPool, name: str) -> ServerReflectionResponse:
    message = pool.FindMessageTypeByName(name)
    numbers = sorted(extension.number for extension in pool.FindAllExtensions(message))
    extensions = ExtensionNumberResponse(base_type_name=message.full_name, extension_number=numbers)
    return ServerReflectionResponse(all_extension_numbers_response=extensions)


def _build_file_response(file: FileDescriptor) -> ServerReflectionResponse:
    files = FileDescriptorResponse(file_descriptor_proto=[*_serialize(file, set())])
    return ServerReflectionResponse(file_descriptor_response=files)


def _serialize(file: FileDescriptor, seen: set[str]) -> Iterator[bytes]:
    """Yield the serialized descriptors of a file and its imports, each only once."""
    if file.name in seen:
        return
    seen.add(file.name)
    proto = FileDescriptorProto()
    file.CopyToProto(proto)
    yield proto.SerializeToString()
    for imported in file.dependencies:
        yield from _serialize(imported, seen)


def _build_error_response(code: StatusCode) -> ServerReflectionResponse:
    error = ErrorResponse(error_code=code, error_message=code.name.lower().replace("_", " "))
    return ServerReflectionResponse(error_response=error)
