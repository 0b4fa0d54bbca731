"""Reads V2 requests from JSON, with or without binary tensors after it."""

import json
import re
from collections.abc import Sequence
from math import prod
from typing import Any

import orjson

from ..errors import InvalidRequest
from ..types import (
    InferenceRequest,
    MetadataTensor,
    Parameters,
    RequestInput,
    RequestOutput,
    TensorData,
)
from ..types.conversion import check_depth
from ..types.datatypes import NAMES, WIRE_SIZES, unknown
from ..types.forms import InputsForm
from ..types.json_numbers import NOT_NUMBERS, Malformed, NumbersText
from . import ids
from .counts import expect_parameters, expect_tensors
from .dialects import RESERVED_PREFIX
from .json_arrays import FIELDS, LARGE, parse, plain
from .json_checks import has_keys, keys_of, refuse_duplicate_keys, refuse_rounded
from .json_pieces import loads
from .references import reference_in, refuse_reference

BinaryOutputs = tuple[bool, dict[str, bool]]
"""The outputs that the client requests as binary: the default, and exceptions by name (protocol §3.1)."""

MAX_NAN = 4 * 2**20
"""Largest JSON in bytes that may hold NaN outside of long lists of numbers: its parser takes 40 ms a MB."""

_LONE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def load(body: bytes) -> Any:
    """The JSON document in `body`. Raises InvalidRequest."""
    try:
        return parse(body, exact=True)[0]
    except orjson.JSONDecodeError as error:
        return _with_nan(body, str(error))


def load_request(text: bytes) -> tuple[Any, bytes]:
    """The JSON document of a request of tensors, and its text, as `parse` gives them. Raises InvalidRequest."""
    try:
        return (orjson.loads(text), text) if len(text) < LARGE else parse(text, tensors=True)
    except orjson.JSONDecodeError as error:
        return _with_nan(text, str(error)), text


def _with_nan(text: bytes, reason: str) -> Any:
    """The document in a text that is no JSON unless for NaN and Infinity, which Triton's client writes."""
    if (b"NaN" in text or b"Infinity" in text) and not _LONE_SURROGATE.search(text):
        if len(text) > MAX_NAN:
            raise InvalidRequest(
                f"NaN and Infinity may stand in long lists, or in JSON of {MAX_NAN} bytes at most."
            )
        try:
            # Of bytes it would take UTF-16 and halves of pairs too.
            return loads(text, lambda piece: json.loads(str(piece, "utf-8")))
        except (ValueError, RecursionError):
            pass
    raise InvalidRequest(f"The body is not valid JSON: {reason}")


def build_request(
    document: Any, text: bytes, tail: memoryview | None, *, nested: bool = False, references: bool = False
) -> tuple[InferenceRequest, BinaryOutputs | None]:
    """A V2 request from `document`, its JSON `text`, and the binary tensors in `tail` (None: there are none).

    With `nested`, parameters may be objects and lists, and data an object. With `references`, tensors may refer to
    their data. Also returns the outputs that the client requests as binary (None: there are none). Raises
    InvalidRequest, which names the wrong field.
    """
    if not isinstance(document, dict):
        raise InvalidRequest(_no_object(document))
    keys = len(document)
    inputs = document.get("inputs")
    if not isinstance(inputs, list):
        raise InvalidRequest(_without_inputs(document) if inputs is None else '"inputs" must be a list')
    expect_tensors(len(inputs), "inputs")
    tensors: list[RequestInput] = []
    names: tuple[str, ...] = ()
    position = 0
    for index, item in enumerate(inputs):
        if not isinstance(item, dict):
            raise InvalidRequest(f"inputs[{index}] must be an object")
        keys += len(item)
        tensor, position, count, reference = _input(item, text, index, tail, position, nested)
        keys += count
        if reference is not None:
            names += (reference,)
        tensors.append(tensor)
    if tail is not None and position != len(tail):
        raise InvalidRequest(f"{len(tail) - position} bytes are left over after the last binary input")
    request_id = parameters = outputs = None
    if (given := document.get("id")) is not None and given != "":
        request_id = check_id(given)
    default = False
    if (sent := document.get("parameters")) is not None:
        parameters, count = _parameters(sent, text, "parameters", nested)
        keys += count
        default = _flag(parameters, "binary_data_output", "parameters")
        for name in parameters.__pydantic_extra__ or ():
            if name.startswith(RESERVED_PREFIX):
                raise InvalidRequest(f'parameters: "{name}" is reserved')
    named: dict[str, bool] = {}
    if (wanted := document.get("outputs")) is not None:
        outputs, named, count, more = _outputs(wanted, text, nested)
        keys += count
        names += more
    for name, value in document.items():
        if type(value) is NumbersText:
            plain(value, name)  # no field of V2, and yet it must be JSON
    if not has_keys(text, keys):
        refuse_duplicate_keys(text, keys_of(document))  # parameters, data and unknown fields may hold objects
    binary = (default, named) if default or named else None
    request = InferenceRequest.of(tensors, request_id, parameters, outputs or None)
    if names:
        if not references:
            refuse_reference(names[0])
        request.references = (*dict.fromkeys(names),)
    return request, binary


def build_values_request(document: Any, text: bytes, form: InputsForm) -> InferenceRequest | None:
    """The same for a request of values that fit `form` and nothing else; None for one that `build_request` reads."""
    if type(document) is not dict or type(inputs := document.get("inputs")) is not list:
        return None
    request_id = None
    if len(document) > 1:
        request_id = document.get("id")
        if len(document) > 2 or not request_id:
            return None
    values: dict[str, Any] = {}
    datatypes = form.datatypes
    try:
        for item in inputs:
            name, data = item["name"], item["data"]
            if len(item) != 4 or type(data) is not list or item["shape"] != SINGLE:
                return None
            if item["datatype"] != datatypes[name]:
                return None
            (values[name],) = data
    except (KeyError, TypeError, ValueError):
        return None
    if len(values) != len(inputs) or not form.fits(values):
        return None
    refuse_duplicate_keys(text, len(document) + 4 * len(inputs))
    return InferenceRequest.of_values(form, values, None if request_id is None else check_id(request_id))


SINGLE = [1]


def _no_object(document: Any) -> str:
    rows = isinstance(document, list) and bool(document) and isinstance(document[0], dict)
    more = "; the rows of a table are for /generate and /generate_stream" if rows else ""
    return f"The body must be a JSON object{more}."


def _without_inputs(document: dict[str, Any]) -> str:
    if "instances" in document:
        return '"inputs" is missing; "instances" are for /v1/models/MODEL:predict and /invocations'
    flat = next((name for name in document if name not in FIELDS), None)
    if flat is None:
        return '"inputs" is missing'
    return f'"inputs" is missing; inputs by name, as "{flat[:40]}", are for /generate and /generate_stream'


def _input(
    item: dict[str, Any],
    text: bytes,
    index: int,
    tail: memoryview | None,
    position: int,
    nested: bool,
) -> tuple[RequestInput, int, int, str | None]:
    """The tensor, the end of its binary data, the number of its parameters, and the one that refers to its data."""
    name = item.get("name")
    if type(name) is not str:
        raise InvalidRequest(f"inputs[{index}]: name must be a string, got {_kind(name)}")
    datatype = item.get("datatype")
    if type(datatype) is not str or datatype not in NAMES:
        raise InvalidRequest(f'input "{name}": {unknown(datatype)}')
    shape = item.get("shape")
    if type(shape) is not list:
        raise InvalidRequest(f'input "{name}": shape must be a list of sizes, got {_kind(shape)}')
    values = item.get("data")
    parameters, count, size, reference = None, 0, None, None
    if (sent := item.get("parameters")) is not None:
        parameters, count = _parameters(sent, text, f'input "{name}": parameters', nested)
        extra = parameters.__pydantic_extra__ or {}
        size = extra.pop("binary_data_size", None)
        reference = reference_in(extra) if extra else None  # most have no others
        if reference is not None and not (values is size is None):
            raise InvalidRequest(f'input "{name}": {reference} excludes data and binary_data_size')
    if size is not None:
        if values is not None:
            raise InvalidRequest(f'input "{name}": data and binary_data_size exclude each other')
        raw = _slice(name, size, tail, position)
        position += len(raw)
        data = TensorData.from_raw(raw, datatype)
    elif values is None:
        if reference is None and 0 not in shape:
            raise InvalidRequest(f'input "{name}": data is missing')
        data = TensorData([])
    elif type(values) is NumbersText:
        data = TensorData(_numbers(values, name, datatype, nested))
    elif type(values) is dict and not nested:
        raise InvalidRequest(f'input "{name}": data must be a list, got an object')
    else:
        data = TensorData(values)
    return RequestInput.of(name, shape, datatype, data, parameters), position, count, reference


def _numbers(numbers: NumbersText, name: str, datatype: str, nested: bool) -> Any:
    """An array, or the values as sent for a model that takes any. Raises InvalidRequest."""
    try:
        if datatype in NOT_NUMBERS:
            return numbers.values()
        try:
            return numbers.array(datatype)
        except ValueError:
            if nested:
                return numbers.values()
            raise
    except Malformed as error:
        raise InvalidRequest(f'input "{name}": data is not valid JSON: {error}') from None
    except ValueError as error:
        raise InvalidRequest(f'input "{name}": {error}') from None


def _slice(name: str, size: Any, tail: memoryview | None, position: int) -> memoryview:
    if type(size) is not int or size < 0:
        raise InvalidRequest(f'input "{name}": binary_data_size {size!r} is not a number of bytes')
    if tail is None:
        if size == 0:
            return memoryview(b"")
        raise InvalidRequest(
            f'input "{name}": binary_data_size needs the header Inference-Header-Content-Length'
        )
    if position + size > len(tail):
        raise InvalidRequest(
            f'input "{name}": binary_data_size is {size}, only {len(tail) - position} bytes are left'
        )
    return tail[position : position + size]


def _parameters(present: Any, text: bytes, where: str, nested: bool) -> tuple[Parameters, int]:
    """Parameters, and the number of their JSON keys. A null value is an absent parameter."""
    if type(present) is not dict:
        raise InvalidRequest(f"{where} must be an object, got {_kind(present)}")
    expect_parameters(len(present), where)
    content_type = None
    extra: dict[str, Any] = {}
    for name, value in present.items():
        if value is None or name == "headers":  # the transport's own headers replace them
            continue
        if isinstance(value, (dict, list)):
            if not nested:
                raise InvalidRequest(
                    f'{where}: "{name}" must be a string, a number or a boolean, got {_kind(value)}'
                )
            try:
                check_depth(value)
            except ValueError as error:
                raise InvalidRequest(f'{where}: "{name}": {error}') from None
        if name == "content_type":
            if type(value) is not str:
                raise InvalidRequest(f"{where}: content_type must be a string, got {_kind(value)}")
            content_type = value
        else:
            extra[name] = value
    parameters = Parameters.of(extra, content_type)
    refuse_rounded(parameters, text, where.removesuffix("parameters"))
    return parameters, len(present)


def _flag(parameters: Parameters, name: str, where: str) -> bool:
    value = (parameters.__pydantic_extra__ or {}).pop(name, None)
    if value is not None and type(value) is not bool:
        raise InvalidRequest(f"{where}: {name} must be true or false, got {_kind(value)}")
    return bool(value)


def _outputs(
    present: Any, text: bytes, nested: bool
) -> tuple[list[RequestOutput], dict[str, bool], int, tuple[str, ...]]:
    """The requested outputs, their `binary_data` by name, the number of their JSON keys, and their references."""
    if type(present) is not list:
        raise InvalidRequest(f'"outputs" must be a list, got {_kind(present)}')
    expect_tensors(len(present), "outputs")
    outputs: list[RequestOutput] = []
    named: dict[str, bool] = {}
    keys = 0
    references: tuple[str, ...] = ()
    for index, item in enumerate(present):
        name = item.get("name") if type(item) is dict else None
        if type(name) is not str:
            raise InvalidRequest(f"outputs[{index}] must be an object with a name")
        keys += len(item)
        parameters = None
        if (sent := item.get("parameters")) is not None:
            where = f'output "{name}": parameters'
            parameters, count = _parameters(sent, text, where, nested)
            keys += count
            if parameters.get("binary_data") is not None:
                named[name] = _flag(parameters, "binary_data", where)
            if (extra := parameters.__pydantic_extra__) and (reference := reference_in(extra)):
                references += (reference,)
        outputs.append(RequestOutput.of(name, parameters))
    return outputs, named, keys, references


def check_id(value: Any) -> str:
    """The request id in a JSON value. Raises InvalidRequest."""
    if type(value) is not str:
        raise InvalidRequest(f"id, which names the request, must be a string, got {_kind(value)}")
    return ids.check_id(value)


def raw_request(body: memoryview, inputs: Sequence[MetadataTensor]) -> tuple[InferenceRequest, BinaryOutputs]:
    """A request with the whole body as the model's only input (header length 0, protocol §3.1).

    Triton clients send an element of BYTES as it is, or behind its length as in other binary tensors.
    """
    if len(inputs) != 1:
        raise InvalidRequest(
            f"A raw binary body needs a model that declares one input; this one declares {len(inputs)}."
        )
    declared = inputs[0]
    if declared.datatype == "BYTES":
        element = body[4:] if int.from_bytes(body[:4], "little") == len(body) - 4 else body
        shape, data = [1] * max(len(declared.shape), 1), TensorData([bytes(element)])
    else:
        data = TensorData.from_raw(body, declared.datatype)
        shape = _raw_shape(declared, len(body))
    tensor = RequestInput.of(declared.name, shape, declared.datatype, data)
    return InferenceRequest.of([tensor]), (True, {})


def _raw_shape(declared: MetadataTensor, size: int) -> list[int]:
    if declared.shape.count(-1) > 1:
        # The first dimension is the batch, which is 1 for a raw body.
        declared = declared.model_copy(update={"shape": [1, *declared.shape[1:]]})
    if declared.shape.count(-1) > 1:
        raise InvalidRequest(f'input "{declared.name}": a raw binary body allows one variable dimension')
    fixed = prod(size for size in declared.shape if size != -1) * WIRE_SIZES[declared.datatype]
    if not fixed or size % fixed:
        raise InvalidRequest(f'input "{declared.name}": {size} bytes do not fill shape {declared.shape}')
    return [size // fixed if dimension == -1 else dimension for dimension in declared.shape]


def _kind(value: Any) -> str:
    names = {
        dict: "an object",
        list: "a list",
        str: "a string",
        bool: "a boolean",
        int: "a number",
        float: "a number",
    }
    return "nothing" if value is None else names.get(type(value), type(value).__name__)
