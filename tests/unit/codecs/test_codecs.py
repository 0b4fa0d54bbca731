"""Shapes, names and values of every codec are MLServer's; what it got wrong is an error that names the tensor."""

from datetime import UTC, date, datetime, time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from inferstream.codecs import (
    Base64Codec,
    DatetimeCodec,
    NumpyCodec,
    NumpyRequestCodec,
    PandasCodec,
    StringCodec,
    StringRequestCodec,
)
from inferstream.codecs.json import DictCodec, JSONCodec
from inferstream.codecs.registry import find_input_codec, find_request_codec
from inferstream.errors import CodecError
from inferstream.types import InferenceRequest, RequestInput

MOMENT = datetime(2026, 11, 21, 5, 30, tzinfo=UTC)
ROUND_TRIPS = [
    (StringCodec, ["a", "é🙂", ""]),
    (Base64Codec, [b"\x00\xff", b""]),
    (DatetimeCodec, [MOMENT]),
    (JSONCodec, [{"a": [1]}, {}]),
]


@pytest.mark.parametrize(("codec", "payload"), ROUND_TRIPS)
@pytest.mark.parametrize("use_bytes", [True, False])
def test_lists_travel_as_a_column(codec, payload, use_bytes: bool) -> None:
    for tensor in (
        codec.encode_input("x", payload, use_bytes=use_bytes),
        codec.encode_output("x", payload, use_bytes=use_bytes),
    ):
        assert (tensor.shape, tensor.datatype) == ([len(payload), 1], "BYTES")
        assert tensor.parameters.content_type == codec.ContentType
        assert isinstance(tensor.data[0], bytes if use_bytes else str)
    assert codec.decode_input(RequestInput.parse_raw(codec.encode_input("x", payload).json())) == payload
    assert codec.decode_output(codec.encode_output("x", payload)) == payload


@given(
    hnp.arrays(
        st.sampled_from([bool, np.int8, np.uint16, np.int64, np.float16, np.float32, np.float64]),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0),
    )
)
def test_arrays_come_back_as_they_went(array: np.ndarray) -> None:
    tensor = NumpyCodec.encode_input("x", array)
    shape = list(array.shape)
    assert tensor.shape == ([1] if not shape else [*shape, 1] if len(shape) == 1 else shape)
    found = NumpyCodec.decode_input(tensor)
    assert found.dtype == array.dtype
    assert np.array_equal(found.reshape(array.shape), array, equal_nan=True)


def test_text_and_bytes_in_arrays() -> None:
    assert NumpyCodec.encode_output("x", np.array(["a", "bc"])).data.root == [b"a", b"bc"]
    uneven = RequestInput(name="x", shape=[2], datatype="BYTES", data=[b"a", b"bcd"])
    assert NumpyCodec.decode_input(uneven).tolist() == [b"a", b"bcd"]


@pytest.mark.parametrize("array", [np.array(["2026"], "datetime64[Y]"), np.array([1j])])
def test_dtypes_without_a_datatype_are_refused(array: np.ndarray) -> None:
    with pytest.raises(CodecError, match="no V2 datatype"):
        NumpyCodec.encode_output("x", array)


@pytest.mark.parametrize(
    ("codec", "tensor"),
    [
        (NumpyCodec, RequestInput(name="bad", shape=[3], datatype="FP32", data=[1.0])),
        (NumpyCodec, RequestInput(name="bad", shape=[1], datatype="INT8", data=[300])),
        (StringCodec, RequestInput(name="bad", shape=[1], datatype="BYTES", data=[b"\xff"])),
        (StringCodec, RequestInput(name="bad", shape=[1], datatype="FP32", data=[1.0])),
        (Base64Codec, RequestInput(name="bad", shape=[1], datatype="BYTES", data=["not base64!"])),
        (DatetimeCodec, RequestInput(name="bad", shape=[1], datatype="BYTES", data=["yesterday"])),
        (JSONCodec, RequestInput(name="bad", shape=[1], datatype="BYTES", data=["{"])),
    ],
)
def test_what_cannot_be_decoded_names_the_tensor(codec, tensor: RequestInput) -> None:
    with pytest.raises(CodecError, match='"bad"'):
        codec.decode_input(tensor)


@pytest.mark.parametrize(("codec", "payload"), [(NumpyRequestCodec, np.eye(2)), (StringRequestCodec, ["a"])])
def test_single_tensor_requests(codec, payload) -> None:
    request = codec.encode_request(payload)
    assert request.inputs[0].name == "input-1"
    assert codec.encode_response("m", payload, "1").outputs[0].name == "output-1"
    assert np.array_equal(codec.decode_request(request), payload)
    with pytest.raises(CodecError, match="single input"):
        codec.decode_request(InferenceRequest(inputs=[]))


def test_frames_keep_their_columns_types_and_gaps() -> None:
    frame = pd.DataFrame(
        {
            "whole": [1, 2],
            "part": [0.5, np.nan],
            "text": ["a", None],
            "thing": [{"k": 1}, [2]],
            "when": pd.to_datetime(["2026-01-01", "2026-02-01"]),
            "nullable": pd.array([1, None], dtype="Int64"),
        }
    )
    request = PandasCodec.encode_request(frame)
    assert all(tensor.shape == [2, 1] for tensor in request.inputs)
    assert request.inputs[2].parameters.content_type == "str"
    assert request.inputs[3].parameters.content_type == "pd_json"
    found = PandasCodec.decode_request(InferenceRequest.parse_raw(request.json()))
    assert found["whole"].tolist() == [1, 2]
    assert found["part"].isna().tolist() == [False, True]
    pd.testing.assert_series_equal(found["text"], frame["text"])
    assert found["thing"].tolist() == [{"k": 1}, [2]]
    assert found["when"][0] == datetime(2026, 1, 1)  # noqa: DTZ001
    assert found["nullable"].isna().tolist() == [False, True]


def test_dates_and_times_are_iso_text() -> None:
    output = DatetimeCodec.encode_output("x", [date(2026, 1, 2), time(3, 4), datetime(2026, 1, 2)])  # noqa: DTZ001
    assert output.data.root == [b"2026-01-02", b"03:04:00", b"2026-01-02T00:00:00"]


def test_frames_of_uneven_columns_are_refused() -> None:
    request = InferenceRequest(
        inputs=[
            RequestInput(name=name, shape=[n], datatype="FP32", data=[1.0] * n)
            for name, n in (("a", 1), ("b", 2))
        ]
    )
    with pytest.raises(CodecError, match="one length"):
        PandasCodec.decode_request(request)


def test_dictionaries_are_a_tensor_per_key() -> None:
    payload = {"a": np.eye(2), "b": ["x", "y"]}
    found = DictCodec.decode_request(DictCodec.encode_request(payload))
    assert np.array_equal(found["a"], payload["a"])
    assert found["b"] == payload["b"]


def test_look_up_by_content_type_payload_and_hint() -> None:
    assert find_input_codec(content_type="str") is StringCodec
    assert find_input_codec(content_type="nothing") is None
    assert find_input_codec(payload=np.eye(1)) is NumpyCodec
    assert find_input_codec(type_hint=list[str]) is StringCodec
    assert find_request_codec(payload=pd.DataFrame()) is PandasCodec
