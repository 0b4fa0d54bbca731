"""Large messages say what protobuf reads in them, and are refused when it refuses them."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from inferstream.errors import InvalidRequest
from inferstream.protos.counts import MAX_PARAMETERS, MAX_TENSORS
from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.grpc import parse_request
from inferstream.protos.grpc_requests import LARGE, MANY, TENSORS, InferRequests, LargeRequest

MOST = 100_000
READER = InferRequests(MOST)


def message(*raws: bytes, **more) -> ModelInferRequest:
    inputs = [{"name": f"x{i}", "datatype": "UINT8", "shape": [len(raw)]} for i, raw in enumerate(raws)]
    return ModelInferRequest(model_name="m", inputs=inputs, raw_input_contents=raws, **more)


def test_tensors_are_views_of_the_received_bytes() -> None:
    data = message(b"a" * LARGE, b"", b"b" * 300, id="i").SerializeToString()
    found = READER.FromString(data)
    assert isinstance(found, LargeRequest)
    assert found.id == "i"
    assert all(raw.obj is data for raw in found.raw_input_contents)
    request = parse_request(found)
    values = [bytes(tensor.data.to_raw("UINT8")) for tensor in request.inputs]
    assert values == [b"a" * LARGE, b"", b"b" * 300]


def test_small_messages_use_protobuf() -> None:
    assert isinstance(READER.FromString(message(b"abc").SerializeToString()), ModelInferRequest)


@pytest.mark.parametrize("odd", [b"", b"\x50\x01"])
def test_message_with_too_many_fields_is_refused(odd: bytes) -> None:
    data = odd + message(*[b"ab"] * MANY, id="i" * LARGE).SerializeToString()
    with pytest.raises(InvalidRequest, match=f"more than {MANY} fields"):
        READER.FromString(data)


def read(data: bytes) -> object:
    """What protobuf reads, comparable; None for what it refuses."""
    try:
        found = ModelInferRequest.FromString(data)
    except DecodeError:
        return None
    return list(found.raw_input_contents), found.id, [tensor.name for tensor in found.inputs]


@given(st.data())
def test_corrupted_messages_behave_as_in_protobuf(data: st.DataObject) -> None:
    whole = message(b"a" * LARGE, b"b" * 5, id="some").SerializeToString()
    cut = data.draw(st.integers(0, 40)) or None
    damaged = bytearray(whole[: -cut if cut else None])
    for _ in range(data.draw(st.integers(0, 3))):
        # Where the fields begin and end, and not within 64 KiB of a's.
        at = data.draw(st.integers(-60, 60))
        damaged[at] = data.draw(st.integers(0, 255))
    expected = read(bytes(damaged))
    try:
        found = READER.FromString(bytes(damaged))
    except DecodeError:
        assert expected is None
        return
    except InvalidRequest:  # its contents have become fields
        return
    raws = [bytes(raw) for raw in found.raw_input_contents]
    assert (raws, found.id, [tensor.name for tensor in found.inputs]) == expected


@pytest.mark.parametrize("tail", [b"\x3a", b"\x3a\xff", b"\x3a\x05abc", b"\x08\x01", b"\x3a" + b"\xff" * 12])
def test_invalid_trailing_bytes_are_left_to_protobuf(tail: bytes) -> None:
    data = message(b"a" * LARGE).SerializeToString() + tail
    expected = read(data)
    try:
        found = READER.FromString(data)
    except DecodeError:
        assert expected is None
    else:
        assert isinstance(found, ModelInferRequest)


def elements(count: int, element: bytes = b"", **more) -> ModelInferRequest:
    contents = {"bytes_contents": [element] * count, **more}
    return ModelInferRequest(
        model_name="m", inputs=[{"name": "x", "datatype": "BYTES", "shape": [count], "contents": contents}]
    )


@pytest.mark.parametrize("element", [b"", b"B", b"B" * 200])
@pytest.mark.parametrize("more", [{}, {"bool_contents": [True]}, {"int_contents": [66]}])
def test_too_many_elements_are_refused_before_protobuf_parsing(element: bytes, more: dict) -> None:
    data = elements(MOST + 1, element, **more).SerializeToString()
    with pytest.raises(InvalidRequest, match="max_json_values"):
        READER.FromString(data)


def test_elements_of_several_inputs_are_added_up() -> None:
    half = elements(MOST // 2 + 1)
    half.inputs.add().CopyFrom(half.inputs[0])
    with pytest.raises(InvalidRequest, match="max_json_values"):
        READER.FromString(half.SerializeToString())


def test_elements_within_the_limit_are_read() -> None:
    found = READER.FromString(elements(MOST, b"BB").SerializeToString())
    assert len(found.inputs[0].contents.bytes_contents) == MOST


def test_many_fields_cannot_hide_elements() -> None:
    data = b"\x32\x00" * 2 * MANY + elements(MOST + 1).SerializeToString()
    with pytest.raises(InvalidRequest, match="fields"):
        READER.FromString(data)


GROUP = b"\xa3\x06\xa4\x06"
"""The begin and the end of field 100, which no message has: protobuf skips it."""


@pytest.mark.parametrize("count", [MOST + 1, 1])
def test_protobuf_group_cannot_hide_elements(count: int) -> None:
    data = GROUP + elements(count, b"a", int_contents=[1] * LARGE).SerializeToString()
    with pytest.raises(InvalidRequest, match="group"):
        READER.FromString(data)


WHERE = ["parameters", 'input "x": parameters', 'output "y": parameters']


def with_parameters(where: str, count: int, size: int = 0) -> ModelInferRequest:
    found = ModelInferRequest(model_name="m", outputs=[{"name": "y"}])
    tensor = found.inputs.add(name="x", datatype="INT32", shape=[1])
    tensor.contents.int_contents.append(1)
    holder = dict(zip(WHERE, (found, tensor, found.outputs[0]), strict=True))[where]
    for number in range(count):
        holder.parameters[f"{number:0{size}}"].int64_param = 1
    return found


@pytest.mark.parametrize("where", WHERE)
def test_parameter_limits_match_json(where: str) -> None:
    parse_request(with_parameters(where, MAX_PARAMETERS))
    with pytest.raises(InvalidRequest, match=f"{where}: {MAX_PARAMETERS + 1} are more"):
        parse_request(with_parameters(where, MAX_PARAMETERS + 1))


@pytest.mark.parametrize("where", WHERE)
def test_too_many_parameters_are_refused_before_protobuf_parsing(where: str) -> None:
    data = with_parameters(where, TENSORS + 1).SerializeToString()
    with pytest.raises(InvalidRequest, match=r"more than .* fields"):
        READER.FromString(data)


@pytest.mark.parametrize("where", WHERE)
def test_large_parameters_are_read(where: str) -> None:
    found = READER.FromString(with_parameters(where, MAX_PARAMETERS, 400).SerializeToString())
    assert parse_request(found).id is None


def test_all_tensors_may_have_parameters() -> None:
    found = with_parameters("parameters", 0)
    del found.inputs[:]
    for number in range(MAX_TENSORS):
        tensor = found.inputs.add(name=f"x{number}" + "y" * 250, datatype="INT32", shape=[1])
        tensor.contents.int_contents.append(1)
        for name in range(30):
            tensor.parameters[str(name)].int64_param = 1
    request = parse_request(READER.FromString(found.SerializeToString()))
    assert len(request.inputs) == MAX_TENSORS
