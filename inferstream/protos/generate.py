"""Flattened JSON for Triton's `generate` and `generate_stream` extension (protocol §3.2)."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidOutput, InvalidRequest
from ..types import (
    InferenceRequest,
    InferenceResponse,
    MetadataTensor,
    Parameters,
    RequestInput,
    RequestOutput,
    TensorData,
)
from ..types.datatypes import FLOATS, INTEGERS
from ..types.forms import OutputForm
from ..types.json_numbers import NOT_NUMBERS, NumbersText
from ..types.metadata import NULLABLE, ROW_SCHEMA
from .counts import expect_tensors
from .dialects import RESERVED_PREFIX
from .flat_values import fits, flatten, guess_datatype, to_columns
from .json_arrays import to_objects
from .json_checks import count_keys, refuse_duplicate_keys, reject_rounded_integers
from .json_requests import check_id
from .json_responses import dump, json_value, json_values
from .unwritable_outputs import log_unwritable_output

OUTPUTS = "outputs"
"""The parameter that lists the requested outputs, in requests without another field for them."""


def is_v2(document: Any, inputs: Sequence[MetadataTensor]) -> bool:
    """Whether the body of a generate request is a V2 request, not a flat Triton object or a list of rows."""
    if not isinstance(document, dict):
        return not isinstance(document, list)
    given = document.get("inputs")
    if not isinstance(given, list):
        return False
    if not given:
        return all(tensor.name != "inputs" for tensor in inputs)
    return all(isinstance(item, dict) and "name" in item and "datatype" in item for item in given)


def parse_arguments(document: Any, text: bytes, names: Sequence[str]) -> tuple[dict[str, Any], str | None]:
    """Return the arguments and the request id in a flat object.

    `text` is the JSON of the object. `id` is the request id unless it is one of the argument `names`. The
    keys of `parameters` are also arguments. Raises InvalidRequest.
    """
    if not isinstance(document, dict):
        raise InvalidRequest("The body must be a JSON object.")
    refuse_duplicate_keys(text, count_keys(document))
    values = dict(document)
    if isinstance(inputs := values.get("inputs"), list):  # an argument, whose objects are not tensors
        for item in inputs:
            if isinstance(item, dict) and type(data := item.get("data")) is NumbersText:
                item["data"] = to_objects(data, "data")
    if "parameters" not in names and isinstance(values.get("parameters"), dict):
        _merge(values, values.pop("parameters"))
    if "id" in names or values.get("id") in (None, ""):
        if "id" not in names:
            values.pop("id", None)
        return values, None
    return values, check_id(values.pop("id"))


def parse_flat(
    document: Any, text: bytes, inputs: Sequence[MetadataTensor], described: Sequence[MetadataTensor] = ()
) -> InferenceRequest:
    """Build a request from a flat object or a list of rows.

    `text` is the JSON of `document`. Keys of declared inputs become tensors, and other keys become
    parameters. Without declared inputs, every key except `id` and `parameters` becomes a tensor. It has the
    datatype of the `described` input if the value fits, and otherwise a datatype inferred from the value. In
    a list of objects, each object is a row of a table, and each column is an input. `outputs` in `parameters`
    lists the requested outputs. Raises InvalidRequest.
    """
    if isinstance(document, list):
        refuse_duplicate_keys(text, count_keys(document))
        return InferenceRequest.of(encode_tensors(document, inputs, described))
    if not isinstance(document, dict):
        raise InvalidRequest("The body must be a JSON object, or a list of objects.")
    refuse_duplicate_keys(text, _keys(document))
    declared = {tensor.name: tensor for tensor in inputs}
    known = {tensor.name: tensor for tensor in described}
    values = dict(document)
    outputs, nested = None, values.pop("parameters", None)
    if nested is not None:
        if not isinstance(nested, dict):
            raise InvalidRequest('"parameters" must be an object')
        nested = dict(nested)
        wanted = None if OUTPUTS in declared or OUTPUTS in known else nested.pop(OUTPUTS, None)
        outputs = None if wanted is None else parse_outputs(wanted)
        _merge(values, nested)
    request_id = None
    if "id" not in known and (given := values.pop("id", None)) not in (None, ""):
        request_id = check_id(given)
    tensors = []
    extra: dict[str, Any] = {}
    for name, value in values.items():
        if value is None and not _may_be_missing(known.get(name)):
            continue
        if name in declared:
            tensors.append(_tensor(declared[name], value))
        elif name.startswith(RESERVED_PREFIX):
            raise InvalidRequest(f'parameter "{name}" is reserved')
        elif not declared and name not in (nested or ()):
            tensors.append(_encode_undeclared_value(name, value, known.get(name)))
        elif isinstance(value, (dict, list, NumbersText)):
            raise InvalidRequest(f'parameter "{name}" must be a string, a number or a boolean')
        else:
            extra[name] = value
    parameters = Parameters.of(extra) if extra else None
    if parameters is not None:
        reject_rounded_integers(parameters, text)
    return InferenceRequest.of(tensors, request_id, parameters, outputs)


def parse_outputs(wanted: object) -> list[RequestOutput]:
    """Return the requested outputs in a list or comma-separated string of names. Raises InvalidRequest."""
    names = wanted.split(",") if isinstance(wanted, str) else wanted
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise InvalidRequest(f'parameter "{OUTPUTS}" takes names of outputs: a list, or a string with commas')
    expect_tensors(len(names), OUTPUTS)
    return [RequestOutput.of(name.strip()) for name in names]


def encode_tensors(
    values: Mapping[str, Any] | list[Any],
    inputs: Sequence[MetadataTensor],
    described: Sequence[MetadataTensor],
) -> list[RequestInput]:
    """Convert JSON values to tensors, according to the declared `inputs` or the `described` ones.

    `values` has one value per input, or is a list with the rows of a table, whose columns are the inputs.
    Raises InvalidRequest.
    """
    declared = {tensor.name: tensor for tensor in inputs}
    known = {tensor.name: tensor for tensor in described}
    columns = to_columns(values) if isinstance(values, list) else values
    return [
        _encode_undeclared_value(name, column, known.get(name))
        if name not in declared
        else _tensor(declared[name], column)
        for name, column in columns.items()
    ]


def _merge(values: dict[str, Any], nested: dict[str, Any]) -> None:
    for name, value in nested.items():
        if name in values:
            raise InvalidRequest(f'key "{name}" is given twice')
        values[name] = value


def _keys(document: dict[str, Any]) -> int:
    """Return the number of keys in a flat object and its parameters, without other nested objects."""
    nested = document.get("parameters")
    return len(document) + (len(nested) if isinstance(nested, dict) else 0)


def _may_be_missing(described: MetadataTensor | None) -> bool:
    """Whether null is a value of the input, as in a nullable column, instead of an absent value."""
    parameters = None if described is None else described.parameters
    return parameters is not None and parameters.get(NULLABLE) is True


def _encode_undeclared_value(name: str, value: Any, described: MetadataTensor | None) -> RequestInput:
    """Convert the value of an undeclared input to a tensor."""
    parameters = None if described is None else described.parameters
    if parameters is not None and (schema := parameters.get(ROW_SCHEMA)):
        return _encode_documents(name, value, "array" in schema)
    if type(value) is NumbersText:
        if not value.literals:
            return _encode_long_list(name, value, described)
        value = to_objects(value, name)
    values, shape = flatten(name, value)
    if described is not None and fits(described.datatype, set(map(type, values))):
        shape = _infer_shape(described, shape, len(values)) or shape
        return _build_input(name, described.datatype, shape, values)
    datatype = guess_datatype(values)
    if datatype == "BYTES" and not all(value is None or isinstance(value, str | bytes) for value in values):
        raise InvalidRequest(f'input "{name}" takes strings')
    return _build_input(name, datatype, shape, values)


def _encode_documents(name: str, value: Any, lists: bool) -> RequestInput:
    """Return a column of JSON documents. `value` is one document or a list of documents.

    `lists` is whether a document can be a list itself.
    """
    value = to_objects(value, name) if type(value) is NumbersText else value
    if not isinstance(value, list) or (lists and not all(map(_may_be_list, value))):
        value = [value]
    rows = [row if row is None or isinstance(row, str) else dump(row).decode() for row in value]
    return _build_input(name, "BYTES", [len(rows)], rows)


def _may_be_list(row: Any) -> bool:
    return row is None or isinstance(row, list) or (isinstance(row, str) and row.lstrip().startswith("["))


def _tensor(declared: MetadataTensor, value: Any) -> RequestInput:
    name, datatype = declared.name, declared.datatype
    if type(value) is NumbersText:
        if datatype not in NOT_NUMBERS:
            shape = value.shape if len(value.shape) > 1 else _shape(declared, value.shape[0])
            try:
                return _build_input(name, datatype, shape, value.array(datatype))
            except ValueError as error:
                raise InvalidRequest(f'input "{name}": {error}') from None
        value = to_objects(value, name)
    values, shape = flatten(name, value)
    if datatype == "BYTES" and not all(isinstance(item, str | bytes) for item in values):
        raise InvalidRequest(f'input "{name}" takes strings')
    if len(shape) == 1:
        shape = _shape(declared, len(values))
    return _build_input(name, datatype, shape, values)


def _encode_long_list(name: str, numbers: NumbersText, described: MetadataTensor | None) -> RequestInput:
    """Convert the long list of numbers of an undeclared input to a tensor."""
    shape = numbers.shape
    if described is not None and described.datatype in (FLOATS | INTEGERS if numbers.whole else FLOATS):
        try:
            array = numbers.array(described.datatype)
        except ValueError:
            pass  # descriptions are not enforced
        else:
            return _build_input(
                name, described.datatype, _infer_shape(described, shape, array.size) or shape, array
            )
    for datatype in ("INT64", "FP64") if numbers.begins_whole else ("FP64",):
        try:
            return _build_input(name, datatype, shape, numbers.array(datatype))
        except ValueError as error:
            fault = error
    raise InvalidRequest(f'input "{name}": {fault}')


def _build_input(
    name: str, datatype: str, shape: list[int], values: list[Any] | npt.NDArray[Any]
) -> RequestInput:
    return RequestInput.of(name, shape, datatype, TensorData(values))


def _infer_shape(described: MetadataTensor, shape: list[int], count: int) -> list[int] | None:
    """Return the shape of a flat list according to a described input, for example one row.

    Returns None if the values are nested or do not fill that shape.
    """
    fixed = prod(size for size in described.shape if size != -1)
    if len(shape) != 1 or len(described.shape) == 1 or not fixed or count % fixed:
        return None
    return _shape(described, count)


def _shape(declared: MetadataTensor, count: int) -> list[int]:
    """Return the shape for `count` values. All variable dimensions except the innermost are 1.

    Raises InvalidRequest if the values do not fill the fixed dimensions.
    """
    fixed = prod(size for size in declared.shape if size != -1)
    if -1 not in declared.shape:
        return declared.shape if fixed == count else [count]
    if not fixed or count % fixed:
        raise InvalidRequest(f'input "{declared.name}": {count} values do not fill shape {declared.shape}')
    shape = [1 if size == -1 else size for size in declared.shape]
    innermost = len(declared.shape) - 1 - declared.shape[::-1].index(-1)
    shape[innermost] = count // fixed
    return shape


FlatValues = Callable[[InferenceResponse], dict[str, Any]]
"""A function that returns the outputs of a response by name."""

RESERVED = ("model_name", "model_version", "id")


@lru_cache(1024)
def _frame(form: OutputForm) -> tuple[bytes, bytes]:
    rest = {"model_name": form.model_name, "model_version": form.model_version or ""}
    return dump({form.name: None})[:-5], b"," + dump(rest)[1:]


class FlatWriter:
    """Writes responses as flat objects.

    If names collide, the outputs of a function take precedence over all other keys. For other models,
    reserved keys take precedence over parameters, and parameters over tensors. `named` is whether the client
    sent an id. `values` returns the outputs by name. By default, a tensor with one element is a single value,
    and a tensor with several rows is a list of lists. Raises InvalidOutput for a value that JSON cannot
    represent.
    """

    __slots__ = ("_is_function", "_values", "named")

    def __init__(self, named: bool, values: FlatValues | None = None) -> None:
        self.named = named
        self._values = values or _values
        self._is_function = values is not None

    def get_frame(self, form: OutputForm) -> tuple[bytes, bytes] | None:
        """Return the JSON of a single-value response before and after the value.

        Returns None if that JSON depends on more than the form.
        """
        return None if self.named or form.name in RESERVED else _frame(form)

    def value(self, form: OutputForm, response: InferenceResponse) -> bytes:
        if (frame := self.get_frame(form)) is None:
            return self.tensors(response)
        return b"%b%b%b" % (frame[0], json_value(form, response.value), frame[1])

    def tensors(self, response: InferenceResponse) -> bytes:
        outputs = self._values(response)
        document = dict(outputs)
        if response.parameters is not None:
            document |= {name: value for name, value in response.parameters.items() if name != "content_type"}
        document["model_name"] = response.model_name
        document["model_version"] = response.model_version or ""
        if self.named:
            document["id"] = response.id
        if self._is_function:
            document |= outputs
        return dump(document)


def _values(response: InferenceResponse) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for tensor in response.outputs:
        if tensor.datatype in ("FP16", "BF16"):
            raise InvalidOutput(f'Output "{tensor.name}" is {tensor.datatype}, which generate cannot answer.')
        values, _ = json_values(tensor.data, tensor.datatype)
        try:
            flat = values if isinstance(values, np.ndarray) else TensorData(values).flat()
        except ValueError as error:
            raise log_unwritable_output(error, tensor.name, response.model_name) from error
        document[tensor.name] = _single(flat[0]) if len(flat) == 1 else _group_rows(flat, tensor.shape)
    return document


def _single(value: Any) -> Any:
    """Return a value that the JSON encoder supports. It has no `numpy.longlong`, the INT64 of ONNX Runtime."""
    return int(value) if isinstance(value, np.integer) else value


def _group_rows(values: Any, shape: Sequence[int]) -> Any:
    """Group flat values into one list per row. Values of one row, or rows of one value, stay flat."""
    sizes = [size for size in shape if size != 1]
    if len(sizes) < 2 or prod(sizes) != len(values):
        return values
    sizes = list(shape[1:] if shape[0] == 1 else shape)
    if isinstance(values, np.ndarray):
        return np.ascontiguousarray(values).reshape(sizes)
    for size in reversed(sizes[1:]):
        values = [values[start : start + size] for start in range(0, len(values), size)]
    return values
