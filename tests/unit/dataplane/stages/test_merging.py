"""Merging and splitting: whatever shares a batch comes back as it went in, and nothing else shares one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferstream.dataplane.call import identify
from inferstream.dataplane.checks import choose_checks
from inferstream.dataplane.stages.merging import batch_key, merge, split, split_outcome
from inferstream.errors import InvalidOutput, ModelError
from inferstream.rows import RowErrors
from inferstream.signature import Signature
from inferstream.types import (
    InferenceRequest,
    InferenceResponse,
    MetadataTensor,
    Parameters,
    RequestInput,
    RequestOutput,
    ResponseOutput,
    TensorData,
)
from inferstream.types.datatypes import DTYPES, narrow_bf16

ANY = choose_checks(Signature(), "declared")

VALUES = {
    "BYTES": st.one_of(st.binary(max_size=4), st.text(max_size=4)),
    "BOOL": st.booleans(),
    "BF16": st.integers(-100, 100).map(float),
    "FP16": st.floats(width=16, allow_nan=False, allow_infinity=False),
    "FP32": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "FP64": st.floats(allow_nan=False, allow_infinity=False),
}


def in_form(form: str, datatype: str, values: list) -> TensorData:
    """The same values as a door, or another model in this process, would have made them."""
    data = TensorData(values)
    if form == "raw":
        return TensorData.from_raw(data.to_raw(datatype), datatype)
    if form == "array" and datatype != "BYTES":
        return TensorData(data.to_numpy(datatype))
    return data


@st.composite
def batches(draw: st.DrawFn) -> list[InferenceRequest]:
    """Requests that may share a batch, each with rows, order and wire forms of its own."""
    names = draw(st.lists(st.text("abc", min_size=1), min_size=1, max_size=3, unique=True))
    kinds = {name: draw(st.sampled_from([*DTYPES, "BYTES"])) for name in names}
    trails = {name: draw(st.lists(st.integers(0, 3), max_size=2)) for name in names}
    content_types = {name: draw(st.sampled_from([None, "np", "str"])) for name in names}
    free = draw(
        st.dictionaries(st.text("xy", min_size=1), st.one_of(st.integers(), st.booleans(), st.text()))
    )
    outputs = draw(st.none() | st.just([RequestOutput(name="y")]))

    def tensor(name: str, rows: int) -> RequestInput:
        datatype, shape = kinds[name], [rows, *trails[name]]
        count = int(np.prod(shape))
        integers = st.integers(0, 100)
        values = draw(st.lists(VALUES.get(datatype, integers), min_size=count, max_size=count))
        data = in_form(draw(st.sampled_from(["list", "raw", "array"])), datatype, values)
        parameters = Parameters(content_type=content_types[name]) if content_types[name] else None
        return RequestInput(name=name, shape=shape, datatype=datatype, data=data, parameters=parameters)

    def request(number: int) -> InferenceRequest:
        rows = draw(st.integers(1, 4))
        made = InferenceRequest(
            id=str(number),
            inputs=[tensor(name, rows) for name in draw(st.permutations(names))],
            parameters=Parameters(**free) if free else None,
            outputs=outputs,
        )
        identify(made, {"number": str(number)})
        ANY.check(made)
        return made

    return [request(number) for number in range(draw(st.integers(2, 5)))]


def echo(request: InferenceRequest, **changed: object) -> InferenceResponse:
    outputs = [
        ResponseOutput(
            name=tensor.name,
            shape=tensor.shape,
            datatype=tensor.datatype,
            data=tensor.data,
            parameters=tensor.parameters,
        )
        for tensor in request.inputs
    ]
    return InferenceResponse(**{"model_name": "m", "id": request.id, "outputs": outputs, **changed})


def wire(tensor: RequestInput | ResponseOutput) -> tuple:
    """What a client can tell of a tensor."""
    content_type = tensor.parameters.content_type if tensor.parameters else None
    return (
        tensor.name,
        tensor.shape,
        tensor.datatype,
        content_type,
        bytes(tensor.data.to_raw(tensor.datatype)),
    )


@settings(deadline=None)
@given(batches())
def test_merge_and_split_round_trip(requests: list[InferenceRequest]) -> None:
    assert len({batch_key(request, ANY) for request in requests}) == 1
    before = [sorted(map(wire, request.inputs)) for request in requests]

    merged = merge(requests, "batch")
    ANY.check(merged)
    responses = split(echo(merged), requests)

    assert [sorted(map(wire, response.outputs)) for response in responses] == before
    assert [response.id for response in responses] == [request.id for request in requests]
    assert [sorted(map(wire, request.inputs)) for request in requests] == before
    for response in responses:
        for tensor in response.outputs:
            tensor.data.check(tensor.datatype, tensor.shape)


@settings(deadline=None)
@given(batches())
def test_batch_has_shared_parameters_and_no_headers(requests: list[InferenceRequest]) -> None:
    merged = merge(requests, "batch")

    assert merged.id == "batch"
    assert dict(merged.parameters.headers) == {}
    assert merged.parameters.items() == requests[0].parameters.items()
    assert merged.outputs == requests[0].outputs
    merged.parameters.later = "set by the model"
    assert requests[0].parameters.get("later") is None


@pytest.mark.parametrize("datatype", [*DTYPES, "BYTES"])
def test_arrays_and_wire_bytes_keep_their_form(datatype: str) -> None:
    values = [b"a", b"b"] if datatype == "BYTES" else [1, 0]
    for form in ("raw", "array"):
        data = TensorData.join([in_form(form, datatype, values)] * 3, datatype)
        if datatype != "BYTES":
            assert data.is_raw == (form == "raw")
            assert data.values is None
        for part in data.split(datatype, [2, 4]):
            if datatype != "BYTES":
                assert part.is_raw == (form == "raw")
                assert part.values is None


def test_split_outputs_are_views() -> None:
    whole = np.arange(6, dtype=np.float32)
    first, second = TensorData(whole).split("FP32", [2, 4])
    assert np.shares_memory(first.array, whole)
    assert second.array.tolist() == [2, 3, 4, 5]
    assert TensorData.from_raw(narrow_bf16(whole), "BF16").split("BF16", [2, 4])[1].peek() == [2, 3, 4, 5]


def request(shape: list[int] | None = None, **changed) -> InferenceRequest:
    shape = [1, 2] if shape is None else shape
    given = {"name": "x", "datatype": "FP32", "shape": shape, "data": [0.0] * int(np.prod(shape))}
    tensor = {key: changed.pop(key) for key in ("name", "datatype", "data") if key in changed}
    if "content_type" in changed:
        tensor["parameters"] = Parameters(content_type=changed.pop("content_type"))
    return InferenceRequest(inputs=[RequestInput(**given | tensor)], **changed)


@pytest.mark.parametrize(
    "other",
    [
        request([1, 3]),
        request([1, 2, 1]),
        request([2]),
        request(name="y"),
        request(datatype="FP64"),
        request(content_type="np"),
        request(parameters=Parameters(temperature=1)),
        request(parameters=Parameters(content_type="pd")),
        request(outputs=[RequestOutput(name="y")]),
        InferenceRequest(inputs=[*request().inputs, *request(name="y").inputs]),
    ],
)
def test_different_requests_are_not_merged(other: InferenceRequest) -> None:
    assert batch_key(other, ANY) not in (None, batch_key(request(), ANY))


@pytest.mark.parametrize("values", [(1, True), (1, 1.0), (0, False), (0.0, -0.0), ("1", 1), ("a", b"a")])
def test_parameters_equal_only_in_python_are_not_merged(values: tuple) -> None:
    first, second = (request(parameters=Parameters(p=value)) for value in values)
    assert batch_key(first, ANY) != batch_key(second, ANY)


def test_outputs_with_different_parameters_or_order_are_not_merged() -> None:
    a, b = RequestOutput(name="a"), RequestOutput(name="b")
    named = RequestOutput(name="a", parameters=Parameters(content_type="np"))
    keys = {batch_key(request(outputs=outputs), ANY) for outputs in ([a, b], [b, a], [a], [named])}
    assert len(keys) == 4


def test_ids_headers_and_empty_parameters_do_not_prevent_merging() -> None:
    plain, named = request(), request(id="mine", parameters=Parameters(), outputs=[])
    identify(named, {"authorization": "secret"})
    assert batch_key(plain, ANY) == batch_key(named, ANY)


@pytest.mark.parametrize(
    "alone",
    [
        request([]),
        request([0, 2]),
        InferenceRequest(inputs=[]),
        InferenceRequest(inputs=[*request([1, 2]).inputs, *request([3, 2], name="y").inputs]),
        InferenceRequest(inputs=[*request([1, 2]).inputs, *request([], name="y").inputs]),
        request(parameters=Parameters(p=object())),
    ],
)
def test_requests_without_common_rows_run_separately(alone: InferenceRequest) -> None:
    assert batch_key(alone, ANY) is None


@pytest.mark.parametrize(
    ("declared", "shape", "strictness", "shares"),
    [
        ([-1, 2], [1, 2], "declared", True),
        ([-1, 2], [1, 2], "strict", True),
        ([2], [5, 2], "declared", True),
        ([2], [2], "declared", False),
        ([1, -1], [1, 2], "declared", False),
        ([1, -1], [1, 2], "off", True),
        ([-1], [3, 1], "declared", True),
    ],
)
def test_rows_are_counted_only_if_declaration_has_open_dimension(
    declared: list[int], shape: list[int], strictness: str, shares: bool
) -> None:
    tensor = MetadataTensor(name="x", datatype="FP32", shape=declared)
    declaration = choose_checks(Signature((tensor,)), strictness)
    declaration.check(request(shape))
    assert (batch_key(request(shape), declaration) is not None) == shares


@pytest.mark.parametrize("shape", [[], [1], [2, 3], [6]])
def test_output_with_wrong_row_count_is_named(shape: list[int]) -> None:
    data = [0.0] * int(np.prod(shape))
    output = ResponseOutput(name="score", shape=shape, datatype="FP32", data=data)
    response = InferenceResponse(model_name="m", outputs=[output])
    with pytest.raises(InvalidOutput, match=r'"score" of shape .* to a batch of 3 rows'):
        split(response, [request([1, 2]), request([2, 2])])


@pytest.mark.parametrize("data", [[1.0, 2.0, 3.0], ["1", True], [[1.0], [2.0, 3.0]]])
def test_invalid_unchecked_data_is_not_merged_or_split(data: list) -> None:
    checks = choose_checks(Signature(), "off")
    asked = request([2, 1])
    checks.check(asked)
    assert batch_key(asked, checks) is not None
    asked.inputs[0].data = data
    checks.check(asked)
    assert batch_key(asked, checks) is None
    output = ResponseOutput(name="score", shape=[2, 1], datatype="FP32", data=data)
    output.data.checked = False
    response = InferenceResponse(model_name="m", outputs=[output])
    with pytest.raises(InvalidOutput, match="values that do not fit its shape"):
        split(response, [request([1, 1]), request([1, 1])])


def test_response_parameters_and_headers_reach_each_caller() -> None:
    requests = [request(id="a"), request(id="b")]
    merged = merge(requests, "batch")
    response = echo(merged, parameters=Parameters(headers={"x-model": "yes"}, took=3), model_version="7")
    for part, id in zip(split(response, requests), "ab", strict=True):
        assert part.parameters.get("took") == 3
        assert part.parameters.headers == {"x-model": "yes"}
        assert (part.id, part.model_name, part.model_version) == (id, "m", "7")


def test_priority_and_timeout_do_not_affect_merging() -> None:
    said = [{"priority": 1}, {"timeout": 10**6, "priority": 9}, {}]
    requests = [request(parameters=Parameters(temperature=1, **own)) for own in said]
    for one in requests:
        identify(one, {})
    assert len({batch_key(one, ANY) for one in requests}) == 1
    assert dict(merge(requests, "batch").parameters.items()) == {"temperature": 1}
    assert batch_key(request(parameters=Parameters(priority=1)), ANY) == batch_key(
        request(parameters=Parameters()), ANY
    )


def answer_to(*requests: InferenceRequest) -> InferenceResponse:
    rows = sum(one.inputs[0].shape[0] for one in requests)
    output = ResponseOutput(name="y", shape=[rows], datatype="INT32", data=list(range(rows)))
    return InferenceResponse(model_name="m", outputs=[output])


def test_row_errors_fail_only_their_callers() -> None:
    asked = [request([rows, 2]) for rows in (2, 1, 3)]
    first, second, third = split_outcome(
        RowErrors({4: "b", 3: ModelError("a", 418)}, answer_to(*asked)), asked
    )
    assert first.outputs[0].data.peek() == [0, 1]
    assert second.outputs[0].data.peek() == [2]
    assert isinstance(third, ModelError)
    assert (third.message, third.status_code) == ("a", 418)


def test_no_response_is_needed_if_every_row_fails() -> None:
    asked = [request(), request()]
    assert [str(error) for error in split_outcome(RowErrors({0: "a", 1: "b"}, None), asked)] == ["a", "b"]


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (RowErrors({2: "a"}, answer_to(request(), request())), "failed row 2 of a batch of 2 rows"),
        (RowErrors({0: "a"}, None), "answered none of the others"),
        (RowErrors({0: "a"}, answer_to(request())), "shape"),
    ],
)
def test_row_errors_outside_the_batch_are_a_model_error(error: RowErrors, why: str) -> None:
    with pytest.raises(InvalidOutput, match=why):
        split_outcome(error, [request(), request()])
