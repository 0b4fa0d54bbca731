"""Typed RPCs of functions, with a protobuf field for each argument and output. Works without protobuf."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..signature import Signature
from ..types import MetadataTensor

RESULT = "result"
"""The response field of a function with one output."""

TENSOR = "TensorProto"
"""The message for arrays."""

PREFIX = "Predict"
"""The prefix of typed RPC names."""

CLASSIC_FILE = "blaze_service.proto"

STREAM = "stream"
OPTIONAL = "optional"
"""Tensor parameters of declared inputs, as in `codecs/values/base.py`."""

NUMBERS = {
    "BOOL": ("bool", "bool"),
    "INT8": ("int32", "int8"),
    "INT16": ("int32", "int16"),
    "INT32": ("int32", "int32"),
    "INT64": ("int64", "int64"),
    "UINT8": ("uint32", "uint8"),
    "UINT16": ("uint32", "uint16"),
    "UINT32": ("uint32", "uint32"),
    "UINT64": ("uint64", "uint64"),
    "FP16": ("float", "half"),
    "BF16": ("float", "bfloat16"),
    "FP32": ("float", "float"),
    "FP64": ("double", "double"),
}
"""For each datatype, the protobuf type of a number and the `dtype` of a TensorProto, as in BlazeRPC."""

DTYPES = {datatype: dtype for datatype, (_, dtype) in NUMBERS.items()}

DATATYPES = {dtype: datatype for datatype, dtype in DTYPES.items()}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a typed message.

    If `presence` is set, an absent value is distinct from zero or an empty string.
    """

    tensor: MetadataTensor
    name: str
    number: int
    type: str
    repeated: bool = False
    presence: bool = True
    required: bool = True

    @property
    def is_tensor(self) -> bool:
        return self.type == TENSOR

    @property
    def declared(self) -> str:
        """The type as written in the lock file, for example `repeated int64`."""
        return f"repeated {self.type}" if self.repeated else self.type

    @property
    def label(self) -> str:
        """The label that precedes the type in a `.proto` file."""
        if self.repeated:
            return "repeated "
        return "optional " if self.presence and not self.is_tensor else ""


@dataclass(frozen=True, slots=True)
class Method:
    """The typed RPC of a model. `stream` is the field whose values arrive in several requests, or None."""

    model: str
    service: str
    name: str
    request: tuple[Field, ...]
    response: tuple[Field, ...]
    stream: Field | None
    streams: bool
    classic: bool
    doc: str = ""

    @property
    def path(self) -> str:
        return f"/{self.service}/{self.name}"

    @property
    def package(self) -> str:
        return self.service.rpartition(".")[0]

    @property
    def messages(self) -> tuple[str, str]:
        """The names of the request and response messages."""
        stem = self.name.removeprefix(PREFIX)
        if not stem[:1].isalpha():
            stem = f"Model{stem}"
        return f"{stem}Request", f"{stem}Response"

    @property
    def file(self) -> str:
        """The name of the file that defines the messages of the package."""
        return CLASSIC_FILE if self.classic else f"{self.package or self.service}.proto"

    @property
    def go_package(self) -> str:
        """The import path for Go, without which protoc rejects the file."""
        return f"inferstream/{(self.package or self.service).replace('.', '/')}"

    @property
    def needs_tensors(self) -> bool:
        """Whether the package needs the message for arrays. The BlazeRPC package always has it."""
        return self.classic or any(each.is_tensor for each in (*self.request, *self.response))


def build_method(model: str, signature: Signature) -> Method | None:
    """Return the typed RPC of a model. Returns None if the model has none or does not declare its outputs."""
    rpc, outputs = signature.rpc, signature.outputs
    if rpc is None or outputs is None:
        return None
    request = _make_distinct(
        _argument(tensor, rpc.numbers[tensor.name], rpc.classic) for tensor in signature.inputs or ()
    )
    names = [RESULT] if len(outputs) == 1 else [identifier(tensor.name) for tensor in outputs]
    response = _make_distinct(
        _field(tensor, name, number, rpc.classic, presence=not rpc.classic)
        for number, (tensor, name) in enumerate(zip(outputs, names, strict=True), start=1)
    )
    return Method(
        model,
        rpc.service,
        identifier(rpc.method),
        request,
        response,
        next((each for each in request if _has_parameter(each.tensor, STREAM)), None),
        rpc.streams,
        rpc.classic,
        signature.doc,
    )


def _argument(tensor: MetadataTensor, number: int, classic: bool) -> Field:
    optional, streams = _has_parameter(tensor, OPTIONAL), _has_parameter(tensor, STREAM)
    presence = optional or streams or not classic
    return _field(tensor, identifier(tensor.name), number, classic, presence, not optional and not streams)


def _field(
    tensor: MetadataTensor, name: str, number: int, classic: bool, presence: bool, required: bool = True
) -> Field:
    declared = field_type(tensor, classic)
    repeated = declared.startswith("repeated ")
    kind = declared.removeprefix("repeated ")
    return Field(
        tensor, name, number, kind, repeated, not repeated and (presence or kind == TENSOR), required
    )


def field_type(tensor: MetadataTensor, classic: bool = False) -> str:
    """Return the field type of a declared tensor, for example `int64`, `repeated string` or `TensorProto`.

    The rules match `codecs/values/declared.py`. If `classic` is set (the BlazeRPC format), JSON is bytes, and
    a Python `float` has 32 bits.
    """
    content = None if tensor.parameters is None else tensor.parameters.content_type
    if content in ("json", "pd_json"):
        single = "bytes" if classic else "string"
    elif content in ("base64", "image"):
        single = "bytes"
    elif tensor.datatype == "BYTES":
        single = "string"
    elif content == "np" or tensor.shape not in ([1], [-1]):
        return TENSOR
    else:
        single = "float" if classic and tensor.datatype == "FP64" else NUMBERS[tensor.datatype][0]
    return single if tensor.shape == [1] else f"repeated {single}"


def _has_parameter(tensor: MetadataTensor, parameter: str) -> bool:
    return tensor.parameters is not None and bool(tensor.parameters.get(parameter))


def identifier(name: str) -> str:
    """Return a valid protobuf name.

    Invalid characters become `u` and their code point: `größe` becomes `gru00f6u00dfe`.
    """
    return re.sub("[^A-Za-z0-9_]", lambda character: f"u{ord(character[0]):04x}", name)


def json_name(name: str) -> str:
    """Return the field name in protobuf's JSON mapping, which must be unique within a message."""
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def _make_distinct(fields: Iterable[Field]) -> tuple[Field, ...]:
    """Return the fields with unique names, ordered by number.

    If the JSON name of a field is already taken, its number is appended to its name.
    """
    taken: set[str] = set()
    names = []
    for each in sorted(fields, key=lambda field: field.number):
        named = replace(each, name=f"{each.name}{each.number}") if json_name(each.name) in taken else each
        taken.add(json_name(named.name))
        names.append(named)
    return tuple(names)
