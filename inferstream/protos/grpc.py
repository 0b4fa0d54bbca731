"""Parses requests and responses from gRPC messages, and builds requests.

`grpc_responses` writes responses.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InvalidRequest
from ..types import (
    InferenceRequest,
    InferenceResponse,
    Parameters,
    RequestInput,
    RequestOutput,
    ResponseOutput,
    TensorData,
)
from ..types.conversion import to_bytes
from ..types.datatypes import DTYPES, NAMES, describe_unknown
from ..types.forms import InputsForm
from ..types.json_encoding import decode, encode
from ..types.tensors import AnyTensor
from .counts import expect_parameters
from .dataplane_pb2 import InferParameter, InferTensorContents, ModelInferRequest, ModelInferResponse
from .grpc_requests import InferMessage, LargeRequest, Packed
from .ids import check_id
from .references import find_reference, reject_reference

TensorMessage = ModelInferRequest.InferInputTensor | ModelInferResponse.InferOutputTensor

FIELDS = {
    "BOOL": "bool_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
"""The field of InferTensorContents for each datatype.

FP16 and BF16 have none and are sent as raw contents (protocol §1.5).
"""

EXACT = {name: DTYPES[name] for name in ("BOOL", "UINT32", "UINT64", "INT32", "INT64", "FP32", "FP64")}
"""Dtypes of the datatypes with the same range as their field, so the values do not need a check."""

PACKED = InferTensorContents.DESCRIPTOR.fields_by_number
"""The fields of InferTensorContents by number."""

INT64_LIMIT = 2**63


def read_parameters(message: Mapping[str, InferParameter]) -> Parameters | None:
    """Convert a map of InferParameter to parameters. Returns None for an empty map."""
    if not message:
        return None
    content_type = None
    extra: dict[str, Any] = {}
    for name, parameter in message.items():
        choice = parameter.WhichOneof("parameter_choice")
        if choice is None or name == "headers":
            continue
        value = getattr(parameter, choice)
        if name == "content_type":
            content_type = str(value)
        else:
            extra[name] = value
    return Parameters.of(extra, content_type)


def write_parameters(parameters: Parameters | None, message: Mapping[str, InferParameter]) -> None:
    """Fill the parameter map of a message.

    Headers are omitted. Values of types that InferParameter does not support are written as JSON strings.
    """
    if parameters is None:
        return
    for name, value in parameters.items():
        kind = type(value)
        if kind not in (str, bool, float, int):
            value = decode(encode(value))  # converts NumPy numbers
            kind = type(value)
        if kind is str:
            message[name].string_param = value
        elif kind is bool:
            message[name].bool_param = value
        elif kind is float:
            message[name].double_param = value
        elif kind is int and -INT64_LIMIT <= value < INT64_LIMIT:
            # Older stubs do not have uint64_param.
            message[name].int64_param = value
        elif kind is int and 0 <= value < 2 * INT64_LIMIT:
            message[name].uint64_param = value
        else:
            message[name].string_param = encode(value).decode()


def parse_request(
    message: InferMessage, form: InputsForm | None = None, references: bool = False
) -> InferenceRequest:
    """Return the request in a ModelInferRequest, without copying raw contents.

    `form` describes the inputs of the model if they are single values. If `references` is set, tensors may
    refer to data elsewhere. Raises InvalidRequest if the contents of an input are mixed, missing or in the
    wrong field, or if the id is invalid.
    """
    raw, sent, parameters, wanted = (
        message.raw_input_contents,
        message.inputs,
        message.parameters,
        message.outputs,
    )
    if request_id := message.id:
        check_id(request_id)
    if form is not None and not (raw or parameters or wanted):
        values = _values_from(sent, form)
        if values is not None:
            return InferenceRequest.of_values(form, values, request_id or None)
    reference_names: list[str] = []
    if raw:
        if len(raw) != len(sent):
            raw = _align_raw_contents(raw, sent)  # type: ignore[assignment]
        inputs = [_tensor_from(RequestInput, each, raw[i], reference_names) for i, each in enumerate(sent)]
    elif type(message) is LargeRequest and message.packed:
        packed = message.packed
        inputs = [
            _tensor_from(RequestInput, each, packed.get(i), reference_names) for i, each in enumerate(sent)
        ]
    else:
        inputs = [_tensor_from(RequestInput, each, None, reference_names) for each in sent]
    outputs = [_wanted_from(each, reference_names) for each in wanted]
    if parameters:
        expect_parameters(len(parameters), "parameters")
    request = InferenceRequest.of(inputs, request_id or None, read_parameters(parameters), outputs or None)
    if reference_names:
        if not references:
            reject_reference(reference_names[0])
        request.references = (*dict.fromkeys(reference_names),)
    return request


def _wanted_from(
    message: ModelInferRequest.InferRequestedOutputTensor, references: list[str]
) -> RequestOutput:
    """Return a requested output.

    If a parameter refers to data elsewhere, its name is appended to `references`.
    """
    parameters = None
    if given := message.parameters:
        expect_parameters(len(given), f'output "{message.name}": parameters')
        parameters = read_parameters(given)
        if parameters is not None and (reference := find_reference(parameters.__pydantic_extra__)):
            references.append(reference)
    return RequestOutput.of(message.name, parameters)


def _values_from(
    inputs: Sequence[ModelInferRequest.InferInputTensor], form: InputsForm
) -> dict[str, Any] | None:
    """Return the values of typed inputs if they fit `form`, else None."""
    values: dict[str, Any] = {}
    for tensor in inputs:
        name, filled = tensor.name, tensor.contents.ListFields()
        datatype = form.datatypes.get(name)
        if tensor.datatype != datatype or len(filled) != 1 or tensor.parameters or tensor.shape != SINGLE:
            return None
        descriptor, contents = filled[0]
        if descriptor.name != FIELDS[datatype] or len(contents) != 1:
            return None
        value = contents[0]
        if datatype == "BYTES":
            try:
                value = str(value, "utf-8")
            except UnicodeDecodeError:
                return None
        values[name] = value
    return values if len(values) == len(inputs) and form.fits(values) else None


SINGLE = [1]


def _align_raw_contents(
    raw: Sequence[bytes | memoryview], inputs: Sequence[ModelInferRequest.InferInputTensor]
) -> Sequence[bytes | memoryview]:
    """Return raw contents for all inputs, with empty contents for inputs that refer to data elsewhere.

    Raises InvalidRequest if the counts do not match.
    """
    elsewhere = [find_reference(each.parameters) is not None for each in inputs]
    if len(raw) + sum(elsewhere) != len(inputs):
        raise InvalidRequest(f"{len(inputs)} inputs come with {len(raw)} raw_input_contents")
    given = iter(raw)
    return [b"" if is_elsewhere else next(given) for is_elsewhere in elsewhere]


def _tensor_from(
    kind: type[AnyTensor],
    message: TensorMessage,
    raw: bytes | memoryview | Packed | None,
    references: list[str] | None = None,
) -> AnyTensor:
    """Return a tensor. If a parameter refers to data elsewhere, its name is appended to `references`.

    If `references` is None, the parameters are not searched.
    """
    what, name, datatype = kind.what, message.name, message.datatype
    if datatype not in NAMES:
        raise InvalidRequest(f'{what} "{name}": {describe_unknown(datatype)}')
    parameters = reference = None
    if given := message.parameters:
        expect_parameters(len(given), f'{what} "{name}": parameters')
        parameters = read_parameters(given)
        if references is not None and parameters is not None:
            reference = find_reference(parameters.__pydantic_extra__)
    if reference is not None and references is not None:
        if raw or message.contents.ListFields():
            raise InvalidRequest(f'{what} "{name}": {reference} excludes contents and raw contents')
        references.append(reference)
        data = TensorData.from_raw(b"", datatype)
    elif raw is None or isinstance(raw, Packed):
        data = _contents_from(what, message, datatype, raw)
    elif message.HasField("contents") and message.contents.ListFields():
        raise InvalidRequest(f'{what} "{name}": contents and raw contents exclude each other')
    else:
        data = TensorData.from_raw(raw, datatype)
    shape = message.shape[:]  # twice as fast as `list`, which reads one element at a time
    return kind.of(name, shape, datatype, data, parameters)


def _contents_from(what: str, message: TensorMessage, datatype: str, packed: Packed | None) -> TensorData:
    filled: Sequence[tuple[Any, Any]] = (
        message.contents.ListFields() if packed is None else [(PACKED[packed.number], packed.array)]
    )
    field = FIELDS.get(datatype)
    if field is None:
        raise InvalidRequest(
            f'{what} "{message.name}": {datatype} has no typed contents, send it as raw contents'
        )
    if not filled:
        if 0 in message.shape:
            return TensorData([])
        raise InvalidRequest(f'{what} "{message.name}": it has neither contents nor raw contents')
    if len(filled) > 1 or filled[0][0].name != field:
        fields = " and ".join(descriptor.name for descriptor, _ in filled)
        raise InvalidRequest(f'{what} "{message.name}": {datatype} belongs into {field}, got {fields}')
    data = TensorData(filled[0][1][:], EXACT.get(datatype))
    if packed is not None and datatype not in EXACT:  # here, because a worker cannot name the input
        try:
            data.to_numpy(datatype)
        except (ValueError, OverflowError) as error:
            raise InvalidRequest(f'{what} "{message.name}": {error}') from None
    return data


def wants_typed_contents(message: InferMessage) -> bool:
    """Whether the response should have typed contents.

    True unless the request has raw contents or refers to data elsewhere.
    """
    if message.raw_input_contents:
        return False
    for tensor in message.inputs:  # a generator would take half as long again
        if tensor.HasField("contents") and tensor.contents.ListFields():
            return True
    if type(message) is LargeRequest and message.packed:
        return True
    return all(find_reference(tensor.parameters) is None for tensor in message.inputs)


def typed_contents(data: TensorData, datatype: str) -> list[Any]:
    """Return the values of a tensor for typed contents. Missing strings become empty."""
    if datatype == "BYTES":
        return [to_bytes(value) for value in data.flat()]
    values: list[Any] = data.to_numpy(datatype).reshape(-1).tolist()
    return values


def build_request_message(
    request: InferenceRequest, model_name: str, model_version: str | None = None, use_raw: bool = False
) -> ModelInferRequest:
    """Build the message of a request. If `use_raw` is set, all tensors are sent as raw contents.

    Raises InvalidRequest for FP16 or BF16 without `use_raw`.
    """
    message = ModelInferRequest(model_name=model_name, model_version=model_version or "", id=request.id or "")
    write_parameters(request.parameters, message.parameters)
    for tensor in request.inputs:
        fields = message.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        write_parameters(tensor.parameters, fields.parameters)
        if use_raw:
            message.raw_input_contents.append(bytes(tensor.data.to_raw(tensor.datatype)))
        elif tensor.datatype not in FIELDS:
            raise InvalidRequest(
                f'input "{tensor.name}": {tensor.datatype} travels raw only; pass use_raw=True'
            )
        else:
            getattr(fields.contents, FIELDS[tensor.datatype]).extend(
                typed_contents(tensor.data, tensor.datatype)
            )
    for output in request.outputs or ():
        requested = message.outputs.add(name=output.name)
        write_parameters(output.parameters, requested.parameters)
    return message


def parse_response(message: ModelInferResponse) -> InferenceResponse:
    """Return the response in a ModelInferResponse.

    An output with parameters but without data is empty, because its parameters may refer to data elsewhere.
    """
    raw = message.raw_output_contents
    outputs = [
        _tensor_from(ResponseOutput, tensor, raw[i] if raw else _get_external_contents(tensor))
        for i, tensor in enumerate(message.outputs)
    ]
    parameters = read_parameters(message.parameters)
    return InferenceResponse.of(
        message.model_name, outputs, message.model_version or None, message.id or None, parameters
    )


def _get_external_contents(output: ModelInferResponse.InferOutputTensor) -> bytes | None:
    """Return empty raw contents for an output that may refer to data elsewhere, else None.

    Clients do not look up references, because that would import every extension.
    """
    return b"" if output.parameters and not output.contents.ListFields() else None
