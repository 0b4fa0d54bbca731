"""Reads requests and responses from gRPC messages, and writes requests; `grpc_responses` writes responses."""

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
from ..types.datatypes import DTYPES, NAMES, unknown
from ..types.forms import InputsForm
from ..types.json_encoding import decode, encode
from ..types.tensors import AnyTensor
from .counts import expect_parameters
from .dataplane_pb2 import InferParameter, InferTensorContents, ModelInferRequest, ModelInferResponse
from .grpc_requests import InferMessage, LargeRequest, Packed
from .ids import check_id
from .references import reference_in, refuse_reference

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
"""The field of InferTensorContents for each datatype; FP16 and BF16 have none and travel raw (protocol §1.5)."""

EXACT = {name: DTYPES[name] for name in ("BOOL", "UINT32", "UINT64", "INT32", "INT64", "FP32", "FP64")}
"""The dtypes of datatypes whose field holds nothing else, so that its values need no check."""

PACKED = InferTensorContents.DESCRIPTOR.fields_by_number
"""The fields of InferTensorContents by number."""

INT64_LIMIT = 2**63


def parameters_from(message: Mapping[str, InferParameter]) -> Parameters | None:
    """Parameters from a map of InferParameter; None for an empty map."""
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


def parameters_to(parameters: Parameters | None, message: Mapping[str, InferParameter]) -> None:
    """Fill the map of a message. A lookup in the map makes an entry.

    Headers are omitted. A value that InferParameter has no type for is JSON text.
    """
    if parameters is None:
        return
    for name, value in parameters.items():
        kind = type(value)
        if kind not in (str, bool, float, int):
            value = decode(encode(value))  # numbers of NumPy become numbers
            kind = type(value)
        if kind is str:
            message[name].string_param = value
        elif kind is bool:
            message[name].bool_param = value
        elif kind is float:
            message[name].double_param = value
        elif kind is int and -INT64_LIMIT <= value < INT64_LIMIT:
            # Older stubs cannot read uint64_param.
            message[name].int64_param = value
        elif kind is int and 0 <= value < 2 * INT64_LIMIT:
            message[name].uint64_param = value
        else:
            message[name].string_param = encode(value).decode()


def request_from(
    message: InferMessage, form: InputsForm | None = None, references: bool = False
) -> InferenceRequest:
    """The request in a ModelInferRequest; raw contents are not copied. `form` is that of the model.

    With `references`, tensors may refer to their data. Raises InvalidRequest for mixed, missing or misplaced contents
    of an input, and for an id that is not allowed.
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
            raw = _beside_references(raw, sent)  # type: ignore[assignment]
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
    request = InferenceRequest.of(inputs, request_id or None, parameters_from(parameters), outputs or None)
    if reference_names:
        if not references:
            refuse_reference(reference_names[0])
        request.references = (*dict.fromkeys(reference_names),)
    return request


def _wanted_from(
    message: ModelInferRequest.InferRequestedOutputTensor, references: list[str]
) -> RequestOutput:
    """A requested output. `references` gets the parameter that refers to its data."""
    parameters = None
    if given := message.parameters:
        expect_parameters(len(given), f'output "{message.name}": parameters')
        parameters = parameters_from(given)
        if parameters is not None and (reference := reference_in(parameters.__pydantic_extra__)):
            references.append(reference)
    return RequestOutput.of(message.name, parameters)


def _values_from(
    inputs: Sequence[ModelInferRequest.InferInputTensor], form: InputsForm
) -> dict[str, Any] | None:
    """The values of typed inputs that fit `form`; None for others."""
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


def _beside_references(
    raw: Sequence[bytes | memoryview], inputs: Sequence[ModelInferRequest.InferInputTensor]
) -> Sequence[bytes | memoryview]:
    """Raw contents for all inputs: those that refer to their data, and have none, get empty ones.

    Raises InvalidRequest.
    """
    elsewhere = [reference_in(each.parameters) is not None for each in inputs]
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
    """A tensor. `references` gets the parameter that refers to its data; without it nobody asks for one."""
    what, name, datatype = kind.what, message.name, message.datatype
    if datatype not in NAMES:
        raise InvalidRequest(f'{what} "{name}": {unknown(datatype)}')
    parameters = reference = None
    if given := message.parameters:
        expect_parameters(len(given), f'{what} "{name}": parameters')
        parameters = parameters_from(given)
        if references is not None and parameters is not None:
            reference = reference_in(parameters.__pydantic_extra__)
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
    shape = message.shape[:]  # takes half the time of `list`, which reads one element at a time
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
    if packed is not None and datatype not in EXACT:  # a worker could not name the input
        try:
            data.to_numpy(datatype)
        except (ValueError, OverflowError) as error:
            raise InvalidRequest(f'{what} "{message.name}": {error}') from None
    return data


def wants_typed(message: InferMessage) -> bool:
    """Whether the response has typed contents: unless the request has raw contents, or refers to its data."""
    if message.raw_input_contents:
        return False
    for tensor in message.inputs:  # a generator takes half as long again
        if tensor.HasField("contents") and tensor.contents.ListFields():
            return True
    if type(message) is LargeRequest and message.packed:
        return True
    return all(reference_in(tensor.parameters) is None for tensor in message.inputs)


def contents_of(data: TensorData, datatype: str) -> list[Any]:
    """The values of a tensor for typed contents; a missing text is empty."""
    if datatype == "BYTES":
        return [to_bytes(value) for value in data.flat()]
    values: list[Any] = data.to_numpy(datatype).reshape(-1).tolist()
    return values


def request_to(
    request: InferenceRequest, model_name: str, model_version: str | None = None, use_raw: bool = False
) -> ModelInferRequest:
    """The message that a client sends; `use_raw` puts every tensor into raw contents."""
    message = ModelInferRequest(model_name=model_name, model_version=model_version or "", id=request.id or "")
    parameters_to(request.parameters, message.parameters)
    for tensor in request.inputs:
        fields = message.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        parameters_to(tensor.parameters, fields.parameters)
        if use_raw:
            message.raw_input_contents.append(bytes(tensor.data.to_raw(tensor.datatype)))
        elif tensor.datatype not in FIELDS:
            raise InvalidRequest(
                f'input "{tensor.name}": {tensor.datatype} travels raw only; pass use_raw=True'
            )
        else:
            getattr(fields.contents, FIELDS[tensor.datatype]).extend(
                contents_of(tensor.data, tensor.datatype)
            )
    for output in request.outputs or ():
        requested = message.outputs.add(name=output.name)
        parameters_to(output.parameters, requested.parameters)
    return message


def response_from(message: ModelInferResponse) -> InferenceResponse:
    """The response in a ModelInferResponse.

    An output that has parameters and no data is empty: its parameters may say where the data are.
    """
    raw = message.raw_output_contents
    outputs = [
        _tensor_from(ResponseOutput, tensor, raw[i] if raw else _elsewhere(tensor))
        for i, tensor in enumerate(message.outputs)
    ]
    parameters = parameters_from(message.parameters)
    return InferenceResponse.of(
        message.model_name, outputs, message.model_version or None, message.id or None, parameters
    )


def _elsewhere(output: ModelInferResponse.InferOutputTensor) -> bytes | None:
    """Empty raw contents for an output without contents, whose parameters may say where they are; else None.

    A client does not look for references: it would import every extension.
    """
    return b"" if output.parameters and not output.contents.ListFields() else None
