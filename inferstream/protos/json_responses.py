"""Writes V2 responses as JSON, optionally followed by binary tensors."""

import base64
from functools import lru_cache
from typing import Any

import orjson

from ..types import InferenceResponse, RequestInput, ResponseOutput, TensorData
from ..types.conversion import to_bytes
from ..types.datatypes import DTYPES
from ..types.forms import OutputForm
from ..types.tensor import DataElsewhere
from .json_requests import BinaryOutputs
from .unwritable_outputs import log_unwritable_output

_AS_IT_IS = {name: dtype for name, dtype in DTYPES.items() if dtype.kind in "biuf" and dtype.isnative}
"""The dtypes that the JSON encoder accepts without conversion, by datatype."""


class JsonWriter:
    """Writes responses as compact JSON, with the raw bytes of each output requested as binary, in order.

    Raises InvalidOutput for a value that JSON cannot represent.
    """

    __slots__ = ("_binary",)

    def __init__(self, binary: BinaryOutputs | None = None) -> None:
        self._binary = binary

    def value(self, form: OutputForm, response: InferenceResponse) -> tuple[bytes, list[bytes | memoryview]]:
        if self._binary is not None:
            return self.tensors(response)
        opening, between, closing = _frame(form)
        value = json_value(form, response.value)
        if response.id is None:
            return b"".join((opening, between, value, closing)), []
        return b"".join((opening, b',"id":', orjson.dumps(response.id), between, value, closing)), []

    def tensors(self, response: InferenceResponse) -> tuple[bytes, list[bytes | memoryview]]:
        binary = self._binary
        document = response_fields(response)
        blobs: list[bytes | memoryview] = []
        outputs: list[dict[str, Any]] = []
        for tensor in response.outputs:
            raw = None
            if binary is not None and binary[1].get(tensor.name, binary[0]):
                raw = to_raw(tensor)
                blobs.append(raw)
            outputs.append(to_object(tensor, raw))
        document["outputs"] = outputs
        return dump(document), blobs


IN_JSON = JsonWriter()
"""Writes all outputs in JSON."""


def to_object(tensor: RequestInput | ResponseOutput, raw: bytes | memoryview | None) -> dict[str, Any]:
    """Return a tensor as a V2 object, without its values if they follow the JSON as `raw` bytes."""
    item: dict[str, Any] = {"name": tensor.name, "shape": tensor.shape, "datatype": tensor.datatype}
    parameters = {} if tensor.parameters is None else dict(tensor.parameters.items())
    if type(tensor.data) is DataElsewhere:
        item["parameters"] = parameters
        return item
    if raw is None:
        item["data"], encoded = json_values(tensor.data, tensor.datatype)
        if encoded:
            parameters["content_type"] = "base64"
    else:
        parameters["binary_data_size"] = len(raw)
    if parameters:
        item["parameters"] = parameters
    return item


def value_frame(form: OutputForm, request_id: str | None) -> tuple[bytes, bytes]:
    """Return the JSON of a single-value response before and after the value."""
    opening, between, closing = _frame(form)
    if request_id is None:
        return opening + between, closing
    return b'%b,"id":%b%b' % (opening, orjson.dumps(request_id), between), closing


@lru_cache(1024)
def _frame(form: OutputForm) -> tuple[bytes, bytes, bytes]:
    head = {"model_name": form.model_name}
    if form.model_version is not None:
        head["model_version"] = form.model_version
    tensor = dump({"name": form.name, "shape": form.shape, "datatype": form.datatype})[:-1]
    parameters = b',"parameters":{"content_type":"base64"}' if form.base64 else b""
    return dump(head)[:-1], b',"outputs":[%b,"data":[' % tensor, b"]%b}]}" % parameters


def json_value(form: OutputForm, value: Any) -> bytes:
    """Return a value as JSON. Raises InvalidOutput for a string with a lone surrogate."""
    if form.base64:
        return b'"%b"' % base64.b64encode(value)
    try:
        return orjson.dumps(value)
    except TypeError as error:
        raise log_unwritable_output(error, form.name, form.model_name) from error


def to_raw(tensor: ResponseOutput) -> bytes | memoryview:
    """Return the raw bytes of an output. Raises InvalidOutput."""
    try:
        return tensor.data.to_raw(tensor.datatype)
    except (TypeError, ValueError) as error:
        raise log_unwritable_output(error, tensor.name) from error


def response_fields(response: InferenceResponse) -> dict[str, Any]:
    """Return the fields of a response except its outputs."""
    document: dict[str, Any] = {"model_name": response.model_name}
    if response.model_version is not None:
        document["model_version"] = response.model_version
    if response.id is not None:
        document["id"] = response.id
    if response.parameters is not None:
        document["parameters"] = dict(response.parameters.items())
    return document


def to_json(document: Any) -> bytes:
    """Encode a document or a part of it as compact JSON. Raises TypeError."""
    return orjson.dumps(document, _encode_other, orjson.OPT_SERIALIZE_NUMPY)


def dump(document: Any, output: str | None = None) -> bytes:
    """Encode a value as compact JSON. NaN and infinities become null, which every client can parse.

    Raises InvalidOutput.
    """
    try:
        # Calling `to_json` would make a token 1 % slower.
        return orjson.dumps(document, _encode_other, orjson.OPT_SERIALIZE_NUMPY)
    except TypeError as error:
        fields = document if isinstance(document, dict) else {}
        raise log_unwritable_output(
            error, output or _find_culprit(fields), fields.get("model_name")
        ) from error


def _find_culprit(document: dict[str, Any]) -> str | None:
    """Return the name of the output that JSON cannot represent, in a V2 or flat document.

    Returns None if another field is at fault.
    """
    outputs = document.get("outputs")
    parts = document if outputs is None else {tensor["name"]: tensor for tensor in outputs}
    for name, part in parts.items():
        try:
            to_json(part)
        except TypeError:
            return name
    return None


def json_values(data: TensorData, datatype: str) -> tuple[Any, bool]:
    """Return the values of a tensor for the JSON encoder, and whether they are base64-encoded."""
    if not data.checked and (values := data.values) is not None:
        return _decode_or_base64(values) if datatype == "BYTES" else (values, False)
    if datatype == "BYTES":
        return _base64(data.flat()) if data.binary else _text(data.peek())
    array = data.array
    if array is not None and array.dtype is _AS_IT_IS.get(datatype):
        return array.ravel(), False  # the JSON encoder only accepts contiguous arrays
    if array is None or array.dtype.kind not in "biuf":
        values = data.peek()
        nested = type(values) is not list or (values and type(values[0]) is list)
        return (data.flat() if nested else values), False
    flat = data.to_numpy(datatype).ravel()
    return (flat if flat.dtype.isnative else flat.astype(flat.dtype.newbyteorder("="))), False


def _text(values: Any) -> tuple[Any, bool]:
    if type(values) is not list:
        values = [values]
    try:
        if len(values) == 1 and type(values[0]) is bytes:
            return [values[0].decode()], False  # the usual case of a token
        return [value.decode() if type(value) is bytes else _decode_bytes(value) for value in values], False
    except UnicodeDecodeError:
        return _base64(TensorData(values).flat())
    except TypeError as error:
        raise log_unwritable_output(error, None) from error


def _base64(values: list[Any]) -> tuple[Any, bool]:
    raw = (value if isinstance(value, bytes) else str(value).encode() for value in values)
    return [base64.b64encode(value).decode() for value in raw], True


def _decode_or_base64(values: Any) -> tuple[Any, bool]:
    """Return BYTES values as strings, and whether they are base64-encoded.

    Strings keep the nesting of the values. If any value is not UTF-8, all become flat base64.
    """
    try:
        return _decode_tree(values), False
    except UnicodeDecodeError:
        try:
            return [base64.b64encode(to_bytes(value)).decode() for value in TensorData(values).flat()], True
        except (TypeError, ValueError) as error:
            raise log_unwritable_output(error, None) from error


def _decode_tree(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_decode_tree(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value


def _encode_other(value: Any) -> str:
    """Encode a type that the JSON encoder does not support itself."""
    if isinstance(value, bytes):
        return value.decode()
    raise TypeError(f"a {type(value).__name__} is no JSON")


def _decode_bytes(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode_bytes(item) for item in value]
    return value if isinstance(value, str) or value is None else to_bytes(value).decode()
