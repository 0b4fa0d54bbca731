"""Columns of every kind travel and come back, or are refused by name."""

from datetime import datetime

import numpy as np
import pandas as pd
import pytest

from inferstream.codecs import (
    NumpyCodec,
    PandasCodec,
)
from inferstream.codecs.lookup import decode_inference_request
from inferstream.errors import CodecError
from inferstream.types import InferenceRequest, Parameters, RequestInput, TensorData

NAN = float("nan")


def travelled(column) -> pd.Series:
    request = PandasCodec.encode_request(pd.DataFrame({"c": column}))
    return PandasCodec.decode_request(InferenceRequest.parse_raw(request.json()))["c"]


@pytest.mark.parametrize(
    ("column", "datatype", "content_type", "values"),
    [
        ([1, 2], "INT64", None, [1, 2]),
        ([True, False], "BOOL", None, [True, False]),
        (pd.array([True, False], dtype="boolean"), "BOOL", None, [True, False]),
        (pd.array([1, 2], dtype="Int8"), "INT8", None, [1, 2]),
        (pd.array([1.0, 0.0], dtype="Sparse[float64]"), "FP64", None, [1.0, 0.0]),
        (["a", None], "BYTES", "str", ["a", None]),
        (["a", NAN], "BYTES", "str", ["a", None]),
        (pd.Categorical(["a", "b"]), "BYTES", "str", ["a", "b"]),
        (["abc", {"k": 1}, None], "BYTES", "pd_json", ["abc", {"k": 1}, None]),
        (['{"k":1}', 1], "BYTES", "pd_json", ['{"k":1}', 1]),
        ([[1.0, NAN], None], "BYTES", "pd_json", [[1.0, None], None]),
    ],
)
@pytest.mark.parametrize("use_bytes", [True, False])
def test_columns_round_trip(
    column, datatype: str, content_type: str | None, values: list, use_bytes: bool
) -> None:
    request = PandasCodec.encode_request(pd.DataFrame({"c": column}), use_bytes=use_bytes)
    (tensor,) = request.inputs
    assert (tensor.datatype, tensor.shape) == (datatype, [len(values), 1])
    assert (tensor.parameters and tensor.parameters.content_type) == content_type
    if datatype == "BYTES":
        kind = bytes if use_bytes else str
        assert all(value is None or isinstance(value, kind) for value in tensor.data)
    if content_type == "str":
        pd.testing.assert_series_equal(travelled(column), pd.Series(values, name="c"))
    else:
        assert travelled(column).tolist() == values


@pytest.mark.parametrize("content_type", [None, "str"])
def test_strings_have_the_pandas_default_dtype(content_type: str | None) -> None:
    column = RequestInput(
        name="c",
        shape=[2, 1],
        datatype="BYTES",
        data=["a", "b"],
        parameters=content_type and Parameters(content_type=content_type),
    )
    found = PandasCodec.decode_request(InferenceRequest(inputs=[column]))
    pd.testing.assert_frame_equal(found, pd.DataFrame({"c": ["a", "b"]}))


def test_bytes_without_content_type_are_unchanged() -> None:
    column = RequestInput(name="c", shape=[2, 1], datatype="BYTES", data=[b"a", b"b"])
    found = PandasCodec.decode_request(InferenceRequest(inputs=[column]))
    pd.testing.assert_frame_equal(found, pd.DataFrame({"c": [b"a", b"b"]}))


def test_timestamps_with_gaps_round_trip() -> None:
    found = travelled(pd.to_datetime(["2026-01-01T12:00", None]))
    assert found.dtype.kind == "M"
    assert found[0] == datetime(2026, 1, 1, 12)  # noqa: DTZ001
    assert found.isna().tolist() == [False, True]


def test_timestamp_gaps_round_trip_through_raw_bytes() -> None:
    (tensor,) = PandasCodec.encode_request(pd.DataFrame({"c": pd.to_datetime(["2026-01-01", None])})).inputs
    tensor.data = TensorData.from_raw(bytes(tensor.data.to_raw("BYTES")), "BYTES")
    found = PandasCodec.decode_request(InferenceRequest(inputs=[tensor]))
    assert found["c"].isna().tolist() == [False, True]


@pytest.mark.parametrize("column", [[1j], np.array([1], np.longdouble), [object()]])
def test_unsupported_columns_are_refused_by_name(column) -> None:
    with pytest.raises(CodecError, match='output "c"'):
        PandasCodec.encode_response("m", pd.DataFrame({"c": column}))


def test_duplicate_column_names_are_refused() -> None:
    with pytest.raises(CodecError, match=r'"a".*more than one'):
        PandasCodec.encode_request(pd.DataFrame([[1, 2]], columns=["a", "a"]))


def test_columns_decoded_by_their_own_codec_are_used_unchanged() -> None:
    dates = RequestInput(
        name="when",
        shape=[1],
        datatype="BYTES",
        data=["2026-01-01"],
        parameters=Parameters(content_type="datetime"),
    )
    request = InferenceRequest(
        inputs=[dates, NumpyCodec.encode_input("n", np.ones((1, 1)))],
        parameters=Parameters(content_type="pd"),
    )
    frame = decode_inference_request(request)
    assert frame["when"][0] == datetime(2026, 1, 1)  # noqa: DTZ001
    assert frame["n"].tolist() == [1.0]


def test_values_are_laid_out_by_row() -> None:
    square = RequestInput(name="s", shape=[2, 2], datatype="INT8", data=[1, 2, 3, 4])
    assert PandasCodec.decode_request(InferenceRequest(inputs=[square]))["s"].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("shape", "data", "values"),
    [
        ([2], [["a", "b"], []], [["a", "b"], []]),
        ([2], [["a"], ["b"]], [["a"], ["b"]]),
        ([2, 1], [["a", "b"], []], [["a", "b"], []]),
        ([2, 1], [["a", "b"], ["c", "d"]], [["a", "b"], ["c", "d"]]),
        ([2, 1], [["a"], ["b"]], ["a", "b"]),
        ([1], "a", ["a"]),
    ],
)
def test_lists_not_covered_by_the_shape_are_values(shape: list[int], data, values: list) -> None:
    column = RequestInput(name="c", shape=shape, datatype="BYTES", data=data)
    assert PandasCodec.decode_request(InferenceRequest(inputs=[column]))["c"].tolist() == values


def test_ragged_lists_are_refused_by_name() -> None:
    column = RequestInput(name="c", shape=[3], datatype="BYTES", data=[["a", "b"], []])
    with pytest.raises(CodecError, match='input "c": data is ragged'):
        PandasCodec.decode_request(InferenceRequest(inputs=[column]))


def test_frames_keep_column_types_and_gaps() -> None:
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


def test_frames_with_uneven_columns_are_refused() -> None:
    request = InferenceRequest(
        inputs=[
            RequestInput(name=name, shape=[n], datatype="FP32", data=[1.0] * n)
            for name, n in (("a", 1), ("b", 2))
        ]
    )
    with pytest.raises(CodecError, match="one length"):
        PandasCodec.decode_request(request)
