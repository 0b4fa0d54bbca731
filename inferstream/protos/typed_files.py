"""Descriptors and classes of typed messages, built without protoc. Each package has its own pool."""

from collections.abc import Iterable, Sequence

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from .typed import TENSOR, Field, Method

TENSOR_FIELDS = (("repeated", "int64", "shape"), ("", "string", "dtype"), ("", "bytes", "data"))
"""The fields of TensorProto, ordered by number."""


def build_file(methods: Sequence[Method]) -> FileDescriptorProto:
    """Return the file of one package, with all services of the methods."""
    package = methods[0].package
    file = FileDescriptorProto(name=methods[0].file, package=package or None, syntax="proto3")
    file.options.go_package = methods[0].go_package
    scope = f".{package}." if package else "."
    if any(method.needs_tensors for method in methods):
        tensor = file.message_type.add(name=TENSOR)
        for number, (label, kind, name) in enumerate(TENSOR_FIELDS, start=1):
            _add_field(tensor, scope, name, number, kind, repeated=bool(label))
    services: dict[str, list[Method]] = {}
    for method in methods:
        services.setdefault(method.service, []).append(method)
        for name, fields in zip(method.messages, (method.request, method.response), strict=True):
            _fill(file.message_type.add(name=name), scope, fields)
    for service, its in services.items():
        described = file.service.add(name=service.rpartition(".")[2])
        for method in its:
            request, response = method.messages
            rpc = described.method.add(
                name=method.name, input_type=scope + request, output_type=scope + response
            )
            if method.stream is not None:
                rpc.client_streaming = True
            if method.streams:
                rpc.server_streaming = True
    return file


def _fill(message: DescriptorProto, scope: str, fields: Iterable[Field]) -> None:
    for each in fields:
        _add_field(message, scope, each.name, each.number, each.type, each.repeated, bool(each.label))
    for field in message.field:
        if field.proto3_optional:
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")


def _add_field(
    message: DescriptorProto,
    scope: str,
    name: str,
    number: int,
    kind: str,
    repeated: bool = False,
    labelled: bool = False,
) -> None:
    label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
    field = message.field.add(name=name, number=number, label=label)
    if kind == TENSOR:
        field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, scope + TENSOR
        return
    field.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
    if labelled and not repeated:
        field.proto3_optional = True


def build_pool(methods: Sequence[Method]) -> DescriptorPool:
    """Return a pool with the file of one package. Raises TypeError if protobuf rejects a name."""
    pool = DescriptorPool()
    pool.Add(build_file(methods))
    return pool


def message_classes(method: Method) -> tuple[type[Message], type[Message]]:
    """Return the request and response classes of an RPC."""
    pool = build_pool([method])
    request, response = (
        GetMessageClass(pool.FindMessageTypeByName(f"{method.package}.{name}" if method.package else name))
        for name in method.messages
    )
    return request, response
