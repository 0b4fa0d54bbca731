"""Frames of the columns of a signature."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from inferstream.errors import InvalidRequest
from inferstream.plugins.frameworks.tables import SignatureTable
from inferstream.types import InferenceRequest, RequestInput


def spec(kind: str, name: str | None = "x", required: bool = True) -> Any:
    return SimpleNamespace(type=SimpleNamespace(name=kind), name=name, required=required)


def request(*inputs: tuple[str, str, list[Any]]) -> InferenceRequest:
    return InferenceRequest(
        inputs=[
            RequestInput(name=name, datatype=datatype, shape=[len(values)], data=values)
            for name, datatype, values in inputs
        ]
    )


@pytest.mark.parametrize(
    ("kind", "datatype", "dtype"),
    [
        ("double", "FP32", "float64"),
        ("double", "INT64", "float64"),
        ("float", "INT16", "float32"),
        ("long", "UINT32", "int64"),
        ("integer", "INT8", "int32"),
        ("boolean", "BOOL", "bool"),
    ],
)
def test_numbers_are_widened(kind: str, datatype: str, dtype: str) -> None:
    frame = SignatureTable([spec(kind)]).frame_from_columns(request(("x", datatype, [1, 0])))
    assert (str(frame["x"].dtype), frame["x"].tolist()) == (dtype, [1, 0])


@pytest.mark.parametrize(
    ("kind", "datatype", "takes"),
    [
        ("float", "FP64", "FP32"),
        ("integer", "INT64", "INT32"),
        ("long", "FP32", "INT64"),
        ("boolean", "INT8", "BOOL"),
        ("double", "BYTES", "FP64"),
        ("string", "FP32", "BYTES"),
        ("datetime", "INT64", "BYTES"),
    ],
)
def test_numbers_are_never_narrowed(kind: str, datatype: str, takes: str) -> None:
    value = "1" if datatype == "BYTES" else 1
    with pytest.raises(InvalidRequest, match=f'column "x": the model takes {takes}, got {datatype}$'):
        SignatureTable([spec(kind)]).frame_from_columns(request(("x", datatype, [value])))


def test_rows_have_all_columns_in_order() -> None:
    table = SignatureTable([spec("double", "a"), spec("double", "b")])
    frame = table.build_frame(np.array([[1, 2], [3, 4]]), 'input "rows"')
    assert frame.to_dict("list") == {"a": [1.0, 3.0], "b": [2.0, 4.0]}
    with pytest.raises(
        InvalidRequest, match=r'input "rows": the model takes shape \[-1, 2\], got \[1, 3\]; or'
    ):
        table.build_frame(np.ones((1, 3)), 'input "rows"')


def test_surplus_frame_columns_are_dropped() -> None:
    table = SignatureTable([spec("double", "a"), spec("string", "b", required=False)])
    given = pd.DataFrame({"c": [0], "a": [1]})
    frame = table.build_frame(given, "")
    assert frame.to_dict("list") == {"a": [1.0]}
    assert given["a"].dtype == np.int64  # as it was
    with pytest.raises(InvalidRequest, match='column "a" is missing; the model has a, b'):
        table.build_frame(given[["c"]], "")


def test_unnamed_columns_are_named_by_position() -> None:
    table = SignatureTable([spec("double", None), spec("long", None)])
    frame = table.frame_from_columns(request(("input-0", "FP64", [0.5]), ("input-1", "INT64", [2])))
    assert frame.to_dict("list") == {"input-0": [0.5], "input-1": [2]}


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("datetime", "2026-11-26T10:00:00", pd.Timestamp(2026, 11, 26, 10)),
        ("binary", "AAE=", b"\0\1"),
        ("string", "a", "a"),
        ("", '{"n": 1}', {"n": 1}),
    ],
)
def test_strings_are_parsed(kind: str, text: str, value: Any) -> None:
    frame = SignatureTable([spec(kind)]).frame_from_columns(request(("x", "BYTES", [text])))
    assert frame["x"][0] == value


@pytest.mark.parametrize(
    ("kind", "text", "form"),
    [("datetime", "today's", "dates in the form of ISO 8601"), ("binary", "%", "base64"), ("", "{", "JSON")],
)
def test_malformed_strings_are_refused_without_content(kind: str, text: str, form: str) -> None:
    with pytest.raises(InvalidRequest, match=f'^column "x": the model takes {form}$'):
        SignatureTable([spec(kind)]).frame_from_columns(request(("x", "BYTES", [text])))
