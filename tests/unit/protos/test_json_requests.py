"""Requests of single values mean the same as the tensors in them."""

import json
import math
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.errors import InvalidRequest
from inferstream.functions.arguments import Arguments
from inferstream.protos.dataplane_pb2 import InferParameter, ModelInferRequest
from inferstream.protos.grpc import FIELDS, parse_request
from inferstream.protos.json_requests import build_request, build_values_request, load
from inferstream.types import InferenceRequest


def function(i: int, f: float, s: str = "", b: bool = False, n: int | None = None) -> None: ...


ARGUMENTS = Arguments(function)
FORM = ARGUMENTS.form()
assert FORM is not None

DATATYPES = {"i": "INT64", "f": "FP64", "s": "BYTES", "b": "BOOL", "n": "INT64"}

I = {"name": "i", "shape": [1], "datatype": "INT64", "data": [3]}  # noqa: E741
F = {"name": "f", "shape": [1], "datatype": "FP64", "data": [0.5]}
S = {"name": "s", "shape": [1], "datatype": "BYTES", "data": ["x: y"]}


def read(document: Any) -> tuple[str | None, dict[str, Any]] | str:
    """The id and the arguments of a V2 document that is read as tensors, or its error."""
    text = orjson.dumps(document)
    try:
        request, _ = build_request(load(text), text, None)
        return request.id, ARGUMENTS.read(request)
    except InvalidRequest as error:
        return error.message


def fast(document: Any) -> InferenceRequest | None:
    text = orjson.dumps(document)
    return build_values_request(load(text), text, FORM)


@pytest.mark.parametrize(
    "document", [{"inputs": [I, F]}, {"inputs": [F, S, I]}, {"id": "7", "inputs": [I, F]}]
)
def test_plain_v2_requests_need_no_tensors(document: Any) -> None:
    found = fast(document)
    assert found is not None
    assert (found.id, ARGUMENTS.read(found)) == read(document)


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        {"inputs": None},
        {"inputs": [I]},
        {"inputs": [I, F, I]},
        {"inputs": [I, F, None]},
        {"inputs": [I, F, ["name", "data", "shape", "datatype"]]},
        {"inputs": [I, {**F, "parameters": {}}]},
        {"inputs": [I, {**F, "shape": [1, 1]}]},
        {"inputs": [I, {**F, "shape": []}]},
        {"inputs": [I, {**F, "datatype": "FP32"}]},
        {"inputs": [I, {**F, "data": [1]}]},
        {"inputs": [I, {**F, "data": 0.5}]},
        {"inputs": [I, {**F, "data": [[0.5]]}]},
        {"inputs": [I, {**F, "data": []}]},
        {"inputs": [I, F, {**S, "data": "x"}]},
        {"inputs": [I, F, {**S, "name": ["s"]}]},
        {"inputs": [I, F, {**S, "name": "t"}]},
        {"inputs": [I, F], "parameters": {"priority": 1}},
        {"inputs": [I, F], "outputs": [{"name": "output"}]},
        {"inputs": [I, F], "id": ""},
        {"inputs": [I, F], "unknown": 1},
        {"id": "7", "parameters": {}, "inputs": [I, F]},
    ],
)
def test_other_requests_are_read_as_tensors(document: Any) -> None:
    assert fast(document) is None


def test_ids_and_keys_are_checked_as_in_tensor_requests() -> None:
    with pytest.raises(InvalidRequest, match="printable"):
        fast({"id": "\n", "inputs": [I, F]})
    with pytest.raises(InvalidRequest, match="must be a string"):
        fast({"id": 7, "inputs": [I, F]})
    text = orjson.dumps({"inputs": [I, F]}).replace(b'"data":[3]', b'"data":[3],"data":[4]')
    with pytest.raises(InvalidRequest, match='"data" is given twice'):
        build_values_request(load(text), text, FORM)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**64), 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=3),
)
TENSORS = st.fixed_dictionaries(
    {
        "name": st.sampled_from([*DATATYPES, "x"]),
        "shape": st.sampled_from([[1], [1, 1], [2], []]),
        "datatype": st.sampled_from([*DATATYPES.values(), "INT32"]),
        "data": st.lists(SCALARS, max_size=2),
    }
)
LIKELY = st.one_of(
    TENSORS,
    *(
        st.fixed_dictionaries(
            {"name": st.just(n), "shape": st.just([1]), "datatype": st.just(d), "data": st.tuples(SCALARS)}
        )
        for n, d in DATATYPES.items()
    ),
)


@given(st.lists(LIKELY, max_size=5))
def test_value_request_has_the_arguments_of_its_tensors(inputs: list[Any]) -> None:
    try:
        document = {"inputs": inputs}
        found = fast(document)
    except TypeError:  # no integer of JSON
        return
    if found is not None:
        assert (None, ARGUMENTS.read(found)) == read(document)


def message(values: dict[str, Any], **more: Any) -> ModelInferRequest:
    return ModelInferRequest(
        inputs=[
            ModelInferRequest.InferInputTensor(
                name=name,
                shape=[1],
                datatype=DATATYPES[name],
                contents={FIELDS[DATATYPES[name]]: [value.encode() if isinstance(value, str) else value]},
            )
            for name, value in values.items()
        ],
        **more,
    )


VALUES = {"i": 3, "f": 0.5, "s": "é", "b": True}


def test_plain_messages_need_no_tensors() -> None:
    found = parse_request(message(VALUES, id="7"), FORM)
    assert found.form is FORM
    assert found.id == "7"
    assert ARGUMENTS.read(found) == ARGUMENTS.read(parse_request(message(VALUES))) == {**VALUES, "n": None}
    assert math.isnan(ARGUMENTS.read(parse_request(message({"i": 1, "f": math.nan}), FORM))["f"])


def test_other_messages_are_read_as_tensors() -> None:
    plain = message(VALUES)
    others = [message({"i": 1}), message(VALUES, parameters={"priority": InferParameter(int64_param=1)})]
    others.append(message(VALUES, outputs=[{"name": "output"}]))
    for change in (
        lambda tensor: tensor.parameters["content_type"].MergeFrom(type(tensor.parameters["x"])()),
        lambda tensor: tensor.shape.append(1),
        lambda tensor: tensor.contents.int64_contents.append(1),
        lambda tensor: tensor.contents.ClearField("int64_contents"),
        lambda tensor: tensor.contents.fp64_contents.append(1),
        lambda tensor: setattr(tensor, "datatype", "INT32"),
        lambda tensor: setattr(tensor, "name", "n"),
        lambda tensor: setattr(tensor, "name", "f"),
    ):
        other = ModelInferRequest()
        other.CopyFrom(plain)
        change(other.inputs[0])
        others.append(other)
    broken = ModelInferRequest()
    broken.CopyFrom(plain)
    broken.inputs[2].contents.bytes_contents[0] = b"\xff"
    for other in (*others, broken):
        try:
            assert parse_request(other, FORM).form is None
        except InvalidRequest:
            with pytest.raises(InvalidRequest):
                parse_request(other)


@pytest.mark.parametrize("place", ["request", "input", "output"])
@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 2**53 + 1, 1e30])
@pytest.mark.parametrize("length", [1, 20_000], ids=["short", "long list"])
def test_parameter_number_is_exact_or_refused(place: str, number: float, length: int) -> None:
    """The parser of long lists makes floats of integers beyond 64 bits."""
    said = {"parameters": {"p": number}}
    given = {each: said if each == place else {} for each in ("request", "input", "output")}
    tensor = {"name": "i", "shape": [length], "datatype": "INT64", "data": [3] * length, **given["input"]}
    document = {"inputs": [tensor], "outputs": [{"name": "o", **given["output"]}], **given["request"]}
    text = json.dumps(document).encode()
    if length > 1 and isinstance(number, int) and abs(number) > 2**60:
        owner = "" if place == "request" else f'{place} "{place[0]}": '
        with pytest.raises(InvalidRequest) as raised:
            build_request(load(text), text, None)
        assert raised.value.message == f'{owner}parameter "p": an integer beyond 64 bits is out of range'
        return
    request, _ = build_request(load(text), text, None)
    part = {"request": request, "input": request.inputs[0], "output": (request.outputs or [])[0]}[place]
    assert part.parameters is not None
    value = part.parameters.get("p")
    assert (value, type(value)) == (number, type(number))


def test_table_rows_in_infer_error_names_generate() -> None:
    with pytest.raises(InvalidRequest, match="the rows of a table are for /generate and /generate_stream"):
        build_request([{"a": 1}], b'[{"a": 1}]', None)
    with pytest.raises(InvalidRequest, match=r"^The body must be a JSON object\.$"):
        build_request([1], b"[1]", None)
