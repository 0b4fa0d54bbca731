"""Triton's flattened JSON for `generate` and `generate_stream` (protocol §3.2)."""

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
from .flat_values import columns_of, fits, flattened, guessed
from .json_arrays import plain
from .json_checks import keys_of, refuse_duplicate_keys, refuse_rounded
from .json_requests import check_id
from .json_responses import dump, json_value, json_values
from .unwritable_outputs import unwritable

OUTPUTS = "outputs"
"""The parameter that names the outputs of a response, where a request has no other place for them."""


def is_v2(document: Any, inputs: Sequence[MetadataTensor]) -> bool:
    """Whether the body of a generate route is a V2 request, and not Triton's flat object or a list of rows."""
    if not isinstance(document, dict):
        return not isinstance(document, list)
    given = document.get("inputs")
    if not isinstance(given, list):
        return False
    if not given:
        return all(tensor.name != "inputs" for tensor in inputs)
    return all(isinstance(item, dict) and "name" in item and "datatype" in item for item in given)


def arguments_of(document: Any, text: bytes, names: Sequence[str]) -> tuple[dict[str, Any], str | None]:
    """The arguments in a flat object, parsed from `text`, and the id of the request.

    `id` is the request's unless it is one of the arguments' `names`; the keys of `parameters` are arguments too.
    Raises InvalidRequest.
    """
    if not isinstance(document, dict):
        raise InvalidRequest("The body must be a JSON object.")
    refuse_duplicate_keys(text, keys_of(document))
    values = dict(document)
    if isinstance(inputs := values.get("inputs"), list):  # an argument, whose objects are no tensors
        for item in inputs:
            if isinstance(item, dict) and type(data := item.get("data")) is NumbersText:
                item["data"] = plain(data, "data")
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
    """A request from a flat object, parsed from `text`. Keys of declared inputs become tensors, others parameters.

    Without declared inputs, every key except `id` and `parameters` becomes a tensor, with the datatype of its value,
    or that of the `described` input if its value fits. A list of objects is the rows of a table, whose columns are the
    inputs. `outputs` in `parameters` names the outputs of the response. Raises InvalidRequest.
    """
    if isinstance(document, list):
        refuse_duplicate_keys(text, keys_of(document))
        return InferenceRequest.of(tensors_of(document, inputs, described))
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
        outputs = None if wanted is None else outputs_named(wanted)
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
            tensors.append(_undeclared(name, value, known.get(name)))
        elif isinstance(value, (dict, list, NumbersText)):
            raise InvalidRequest(f'parameter "{name}" must be a string, a number or a boolean')
        else:
            extra[name] = value
    parameters = Parameters.of(extra) if extra else None
    if parameters is not None:
        refuse_rounded(parameters, text)
    return InferenceRequest.of(tensors, request_id, parameters, outputs)


def outputs_named(wanted: object) -> list[RequestOutput]:
    """The outputs in a list of names, or in a string with commas between them. Raises InvalidRequest."""
    names = wanted.split(",") if isinstance(wanted, str) else wanted
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise InvalidRequest(f'parameter "{OUTPUTS}" takes names of outputs: a list, or a string with commas')
    expect_tensors(len(names), OUTPUTS)
    return [RequestOutput.of(name.strip()) for name in names]


def tensors_of(
    values: Mapping[str, Any] | list[Any],
    inputs: Sequence[MetadataTensor],
    described: Sequence[MetadataTensor],
) -> list[RequestInput]:
    """The tensors of values in JSON, as a model declares its `inputs` or describes them. Raises InvalidRequest.

    The values are an object by input, or a list of objects: the rows of a table, whose columns are the inputs.
    """
    declared = {tensor.name: tensor for tensor in inputs}
    known = {tensor.name: tensor for tensor in described}
    columns = columns_of(values) if isinstance(values, list) else values
    return [
        _undeclared(name, column, known.get(name))
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
    """The number of keys of a flat object and its parameters, the only objects that may occur."""
    nested = document.get("parameters")
    return len(document) + (len(nested) if isinstance(nested, dict) else 0)


def _may_be_missing(described: MetadataTensor | None) -> bool:
    """Whether null is a value of an input, such as a column, and not the same as no value."""
    parameters = None if described is None else described.parameters
    return parameters is not None and parameters.get(NULLABLE) is True


def _undeclared(name: str, value: Any, described: MetadataTensor | None) -> RequestInput:
    """The tensor of a value that no input declares."""
    parameters = None if described is None else described.parameters
    if parameters is not None and (schema := parameters.get(ROW_SCHEMA)):
        return _documents(name, value, "array" in schema)
    if type(value) is NumbersText:
        if not value.literals:
            return _long(name, value, described)
        value = plain(value, name)
    values, shape = flattened(name, value)
    if described is not None and fits(described.datatype, set(map(type, values))):
        shape = _sized(described, shape, len(values)) or shape
        return _built(name, described.datatype, shape, values)
    datatype = guessed(values)
    if datatype == "BYTES" and not all(value is None or isinstance(value, str | bytes) for value in values):
        raise InvalidRequest(f'input "{name}" takes strings')
    return _built(name, datatype, shape, values)


def _documents(name: str, value: Any, lists: bool) -> RequestInput:
    """The rows of a column of JSON documents, which may be lists: one document, or a list of them."""
    value = plain(value, name) if type(value) is NumbersText else value
    if not isinstance(value, list) or (lists and not all(map(_may_be_list, value))):
        value = [value]
    rows = [row if row is None or isinstance(row, str) else dump(row).decode() for row in value]
    return _built(name, "BYTES", [len(rows)], rows)


def _may_be_list(row: Any) -> bool:
    return row is None or isinstance(row, list) or (isinstance(row, str) and row.lstrip().startswith("["))


def _tensor(declared: MetadataTensor, value: Any) -> RequestInput:
    name, datatype = declared.name, declared.datatype
    if type(value) is NumbersText:
        if datatype not in NOT_NUMBERS:
            shape = value.shape if len(value.shape) > 1 else _shape(declared, value.shape[0])
            try:
                return _built(name, datatype, shape, value.array(datatype))
            except ValueError as error:
                raise InvalidRequest(f'input "{name}": {error}') from None
        value = plain(value, name)
    values, shape = flattened(name, value)
    if datatype == "BYTES" and not all(isinstance(item, str | bytes) for item in values):
        raise InvalidRequest(f'input "{name}" takes strings')
    if len(shape) == 1:
        shape = _shape(declared, len(values))
    return _built(name, datatype, shape, values)


def _long(name: str, numbers: NumbersText, described: MetadataTensor | None) -> RequestInput:
    """The tensor of a long list of numbers that no input declares."""
    shape = numbers.shape
    if described is not None and described.datatype in (FLOATS | INTEGERS if numbers.whole else FLOATS):
        try:
            array = numbers.array(described.datatype)
        except ValueError:
            pass  # a description enforces nothing
        else:
            return _built(name, described.datatype, _sized(described, shape, array.size) or shape, array)
    for datatype in ("INT64", "FP64") if numbers.begins_whole else ("FP64",):
        try:
            return _built(name, datatype, shape, numbers.array(datatype))
        except ValueError as error:
            fault = error
    raise InvalidRequest(f'input "{name}": {fault}')


def _built(name: str, datatype: str, shape: list[int], values: list[Any] | npt.NDArray[Any]) -> RequestInput:
    return RequestInput.of(name, shape, datatype, TensorData(values))


def _sized(described: MetadataTensor, shape: list[int], count: int) -> list[int] | None:
    """The shape of a flat list as a described input has it, such as one row; None if it does not fill it."""
    fixed = prod(size for size in described.shape if size != -1)
    if len(shape) != 1 or len(described.shape) == 1 or not fixed or count % fixed:
        return None
    return _shape(described, count)


def _shape(declared: MetadataTensor, count: int) -> list[int]:
    """The innermost variable dimension gets all values; other variable dimensions are 1."""
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
"""Gives the outputs of a response by name."""

RESERVED = ("model_name", "model_version", "id")


@lru_cache(1024)
def _frame(form: OutputForm) -> tuple[bytes, bytes]:
    rest = {"model_name": form.model_name, "model_version": form.model_version or ""}
    return dump({form.name: None})[:-5], b"," + dump(rest)[1:]


class FlatWriter:
    """Writes responses as flat objects. For equal names, the outputs of a function win over all other keys; of other
    models, reserved keys win over parameters, and these over tensors.

    `named` tells whether the client gave an id. `values` gives the outputs by name; by default a tensor of one element
    is a single value, and one of several rows a list for each. Raises InvalidOutput for a value that JSON cannot hold.
    """

    __slots__ = ("_is_function", "_values", "named")

    def __init__(self, named: bool, values: FlatValues | None = None) -> None:
        self.named = named
        self._values = values or _values
        self._is_function = values is not None

    def around(self, form: OutputForm) -> tuple[bytes, bytes] | None:
        """The object of a response of one value, before and after the value; None where it depends on more."""
        return None if self.named or form.name in RESERVED else _frame(form)

    def value(self, form: OutputForm, response: InferenceResponse) -> bytes:
        if (frame := self.around(form)) is None:
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
            raise unwritable(error, tensor.name, response.model_name) from error
        document[tensor.name] = flat[0] if len(flat) == 1 else _rows(flat, tensor.shape)
    return document


def _rows(values: Any, shape: Sequence[int]) -> Any:
    """Flat values as a list for each row; values of one row, or rows of one value, stay flat."""
    sizes = [size for size in shape if size != 1]
    if len(sizes) < 2 or prod(sizes) != len(values):
        return values
    sizes = list(shape[1:] if shape[0] == 1 else shape)
    if isinstance(values, np.ndarray):
        return np.ascontiguousarray(values).reshape(sizes)
    for size in reversed(sizes[1:]):
        values = [values[start : start + size] for start in range(0, len(values), size)]
    return values
