"""Typed RPCs of functions: the protobuf field of each argument and output. It needs no protobuf library."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..signature import Signature
from ..types import MetadataTensor

RESULT = "result"
"""Field of the response of a function with one output."""

TENSOR = "TensorProto"
"""The message of arrays."""

PREFIX = "Predict"
"""How the names of typed RPCs begin."""

CLASSIC_FILE = "blaze_service.proto"

STREAM = "stream"
OPTIONAL = "optional"
"""Parameters of declared inputs; `codecs/values/base.py` describes them."""

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
"""The protobuf type of a number of each datatype, and the `dtype` of a TensorProto, which is that of BlazeRPC."""

DTYPES = {datatype: dtype for datatype, (_, dtype) in NUMBERS.items()}

DATATYPES = {dtype: datatype for datatype, dtype in DTYPES.items()}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a typed message. `presence` tells an absent value from zero or an empty text."""

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
        """The type as the lock file holds it: `repeated int64`."""
        return f"repeated {self.type}" if self.repeated else self.type

    @property
    def label(self) -> str:
        """What precedes the type in a `.proto` file."""
        if self.repeated:
            return "repeated "
        return "optional " if self.presence and not self.is_tensor else ""


@dataclass(frozen=True, slots=True)
class Method:
    """The typed RPC of a model. `stream` is the field of the values that arrive in later requests."""

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
        """Names of the request and of the response."""
        stem = self.name.removeprefix(PREFIX)
        if not stem[:1].isalpha():
            stem = f"Model{stem}"
        return f"{stem}Request", f"{stem}Response"

    @property
    def file(self) -> str:
        """Name of the file that describes the messages of its package."""
        return CLASSIC_FILE if self.classic else f"{self.package or self.service}.proto"

    @property
    def go_package(self) -> str:
        """Import path of the package that protoc makes for Go, which refuses a file without one."""
        return f"inferstream/{(self.package or self.service).replace('.', '/')}"

    @property
    def needs_tensors(self) -> bool:
        """Whether its package needs the message of arrays. BlazeRPC's package always has it."""
        return self.classic or any(each.is_tensor for each in (*self.request, *self.response))


def method_of(model: str, signature: Signature) -> Method | None:
    """The typed RPC of a model; None for a model without one, or whose outputs only its code knows."""
    rpc, outputs = signature.rpc, signature.outputs
    if rpc is None or outputs is None:
        return None
    request = _distinct(
        _argument(tensor, rpc.numbers[tensor.name], rpc.classic) for tensor in signature.inputs or ()
    )
    names = [RESULT] if len(outputs) == 1 else [identifier(tensor.name) for tensor in outputs]
    response = _distinct(
        _field(tensor, name, number, rpc.classic, presence=not rpc.classic)
        for number, (tensor, name) in enumerate(zip(outputs, names, strict=True), start=1)
    )
    return Method(
        model,
        rpc.service,
        identifier(rpc.method),
        request,
        response,
        next((each for each in request if _says(each.tensor, STREAM)), None),
        rpc.streams,
        rpc.classic,
        signature.doc,
    )


def _argument(tensor: MetadataTensor, number: int, classic: bool) -> Field:
    optional, streams = _says(tensor, OPTIONAL), _says(tensor, STREAM)
    presence = optional or streams or not classic
    return _field(tensor, identifier(tensor.name), number, classic, presence, not optional and not streams)


def _field(
    tensor: MetadataTensor, name: str, number: int, classic: bool, presence: bool, required: bool = True
) -> Field:
    declared = type_of(tensor, classic)
    repeated = declared.startswith("repeated ")
    kind = declared.removeprefix("repeated ")
    return Field(
        tensor, name, number, kind, repeated, not repeated and (presence or kind == TENSOR), required
    )


def type_of(tensor: MetadataTensor, classic: bool = False) -> str:
    """The type of the field of a declared tensor: `int64`, `repeated string`, `TensorProto`.

    The rules are those of `codecs/values/declared.py`. In BlazeRPC's form (`classic`) JSON is bytes, and Python's
    `float` has 32 bits.
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


def _says(tensor: MetadataTensor, parameter: str) -> bool:
    return tensor.parameters is not None and bool(tensor.parameters.get(parameter))


def identifier(name: str) -> str:
    """A name in protobuf's letters: another letter becomes `u` and its code, `größe` becomes `gru00f6u00dfe`."""
    return re.sub("[^A-Za-z0-9_]", lambda character: f"u{ord(character[0]):04x}", name)


def json_name(name: str) -> str:
    """The name of a field in protobuf's JSON. No two fields of a message may share it."""
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def _distinct(fields: Iterable[Field]) -> tuple[Field, ...]:
    """The fields by number. One whose name in JSON an earlier field has gets its number as a part of its name."""
    taken: set[str] = set()
    names = []
    for each in sorted(fields, key=lambda field: field.number):
        named = replace(each, name=f"{each.name}{each.number}") if json_name(each.name) in taken else each
        taken.add(json_name(named.name))
        names.append(named)
    return tuple(names)
