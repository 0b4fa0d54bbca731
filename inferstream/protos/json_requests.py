"""Parses V2 requests from JSON, optionally followed by binary tensors."""

import json
import re
from collections.abc import Sequence
from math import prod
from typing import Any

import orjson

from ..errors import HINT, InvalidRequest
from ..types import (
    InferenceRequest,
    MetadataTensor,
    Parameters,
    RequestInput,
    RequestOutput,
    TensorData,
)
from ..types.conversion import check_depth
from ..types.datatypes import NAMES, WIRE_SIZES, describe_unknown
from ..types.forms import InputsForm
from ..types.json_faults import describe_json_fault
from ..types.json_numbers import NOT_NUMBERS, Malformed, NumbersText
from . import ids
from .counts import expect_parameters, expect_tensors
from .dialects import RESERVED_PREFIX
from .json_arrays import FIELDS, LARGE, parse, to_objects
from .json_checks import count_keys, has_keys, refuse_duplicate_keys, reject_rounded_integers
from .json_pieces import loads
from .references import find_reference, reject_reference

BinaryOutputs = tuple[bool, dict[str, bool]]
"""The outputs that the client requests as binary: the default, and exceptions by name (protocol §3.1)."""

MAX_NAN = 4 * 2**20
"""The maximum size of JSON, in bytes, with NaN outside long lists of numbers.

Parsing it takes 40 ms per MB.
"""

_LONE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def load(body: bytes) -> Any:
    """Parse a JSON document. Raises InvalidRequest."""
    try:
        return parse(body, exact=True)[0]
    except orjson.JSONDecodeError as error:
        return _parse_with_nan(body, error)


def load_request(text: bytes) -> tuple[Any, bytes]:
    """Parse the JSON of a request with tensors. Returns the document and its JSON, as in `parse`.

    Raises InvalidRequest.
    """
    try:
        return (orjson.loads(text), text) if len(text) < LARGE else parse(text, tensors=True)
    except orjson.JSONDecodeError as error:
        return _parse_with_nan(text, error), text


def _parse_with_nan(text: bytes, error: orjson.JSONDecodeError) -> Any:
    """Parse JSON with NaN and Infinity, which the Triton client writes.

    Raises InvalidRequest if it is invalid.
    """
    if (b"NaN" in text or b"Infinity" in text) and not _LONE_SURROGATE.search(text):
        if len(text) > MAX_NAN:
            raise InvalidRequest(
                f"NaN and Infinity may stand in long lists, or in JSON of {MAX_NAN} bytes at most."
            )
        try:
            # Decoded first, because `json.loads` accepts bytes in UTF-16 and with lone surrogates.
            return loads(text, lambda piece: json.loads(str(piece, "utf-8")))
        except (ValueError, RecursionError):
            pass
    raise InvalidRequest(describe_body(text, error))


def describe_body(body: bytes, error: orjson.JSONDecodeError) -> str:
    """Return the message for a body that is not valid JSON."""
    if not body.strip():
        return f"The body is empty{HINT}send a JSON object"
    fault = describe_json_fault(error.doc, error.pos, error.msg, HINT) if error.doc else str(error)
    return f"The body is not valid JSON: {fault.replace(': not valid JSON', '', 1)}"


def build_request(
    document: Any, text: bytes, tail: memoryview | None, *, nested: bool = False, references: bool = False
) -> tuple[InferenceRequest, BinaryOutputs | None]:
    """Build a V2 request from `document`, its JSON `text`, and the binary tensors in `tail` (or None).

    If `nested` is set, parameters can be objects and lists, and data can be an object. If `references` is
    set, tensors may refer to data elsewhere. Also returns the outputs that the client requests as binary, or
    None. Raises InvalidRequest naming the field at fault.
    """
    if not isinstance(document, dict):
        raise InvalidRequest(_describe_non_object(document))
    keys = len(document)
    inputs = document.get("inputs")
    if not isinstance(inputs, list):
        raise InvalidRequest(
            _describe_missing_inputs(document) if inputs is None else '"inputs" must be a list'
        )
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
        default = _pop_flag(parameters, "binary_data_output", "parameters")
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
            to_objects(value, name)  # unknown fields must be valid JSON, too
    if not has_keys(text, keys):  # parameters, data and other fields may hold objects
        refuse_duplicate_keys(text, count_keys(document))
    binary = (default, named) if default or named else None
    request = InferenceRequest.of(tensors, request_id, parameters, outputs or None)
    if names:
        if not references:
            reject_reference(names[0])
        request.references = (*dict.fromkeys(names),)
    return request, binary


def build_values_request(document: Any, text: bytes, form: InputsForm) -> InferenceRequest | None:
    """Build a request from values that fit `form`.

    Returns None for any other request, which `build_request` handles.
    """
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


def _describe_non_object(document: Any) -> str:
    rows = isinstance(document, list) and bool(document) and isinstance(document[0], dict)
    more = "; the rows of a table are for /generate and /generate_stream" if rows else ""
    return f"The body must be a JSON object{more}."


def _describe_missing_inputs(document: dict[str, Any]) -> str:
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
    """Return the tensor, the end of its binary data, its number of parameters, and its reference, if any."""
    name = item.get("name")
    if type(name) is not str:
        raise InvalidRequest(f"inputs[{index}]: name must be a string, got {_kind(name)}")
    datatype = item.get("datatype")
    if type(datatype) is not str or datatype not in NAMES:
        raise InvalidRequest(f'input "{name}": {describe_unknown(datatype)}')
    shape = item.get("shape")
    if type(shape) is not list:
        raise InvalidRequest(f'input "{name}": shape must be a list of sizes, got {_kind(shape)}')
    values = item.get("data")
    parameters, count, size, reference = None, 0, None, None
    if (sent := item.get("parameters")) is not None:
        parameters, count = _parameters(sent, text, f'input "{name}": parameters', nested)
        extra = parameters.__pydantic_extra__ or {}
        size = extra.pop("binary_data_size", None)
        reference = find_reference(extra) if extra else None  # most tensors have no other parameter
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
    """Return the numbers as an array, or as a list if the datatype is not numeric.

    If `nested` is set, numbers that do not fit the datatype are also returned as a list. Raises
    InvalidRequest.
    """
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
    """Return parameters and the number of their JSON keys. Null parameters count as absent."""
    if type(present) is not dict:
        raise InvalidRequest(f"{where} must be an object, got {_kind(present)}")
    expect_parameters(len(present), where)
    content_type = None
    extra: dict[str, Any] = {}
    for name, value in present.items():
        if value is None or name == "headers":  # replaced by the transport headers
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
    reject_rounded_integers(parameters, text, where.removesuffix("parameters"))
    return parameters, len(present)


def _pop_flag(parameters: Parameters, name: str, where: str) -> bool:
    value = (parameters.__pydantic_extra__ or {}).pop(name, None)
    if value is not None and type(value) is not bool:
        raise InvalidRequest(f"{where}: {name} must be true or false, got {_kind(value)}")
    return bool(value)


def _outputs(
    present: Any, text: bytes, nested: bool
) -> tuple[list[RequestOutput], dict[str, bool], int, tuple[str, ...]]:
    """Return the requested outputs, `binary_data` by output name, the number of JSON keys, and references."""
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
                named[name] = _pop_flag(parameters, "binary_data", where)
            if (extra := parameters.__pydantic_extra__) and (reference := find_reference(extra)):
                references += (reference,)
        outputs.append(RequestOutput.of(name, parameters))
    return outputs, named, keys, references


def check_id(value: Any) -> str:
    """Return the request id in a JSON value. Raises InvalidRequest."""
    if type(value) is not str:
        raise InvalidRequest(f"id, which names the request, must be a string, got {_kind(value)}")
    return ids.check_id(value)


def build_raw_request(
    body: memoryview, inputs: Sequence[MetadataTensor]
) -> tuple[InferenceRequest, BinaryOutputs]:
    """Return a request whose entire body is the only input of the model (header length 0, protocol §3.1).

    For BYTES, Triton clients send either the plain element or, as in other binary tensors, its length and the
    element.
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
