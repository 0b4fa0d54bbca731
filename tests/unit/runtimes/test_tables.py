"""Frames of the columns of a signature."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from inferstream.errors import InvalidRequest
from inferstream.runtimes.tables import SignatureTable
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
def test_numbers_become_wider(kind: str, datatype: str, dtype: str) -> None:
    frame = SignatureTable([spec(kind)]).of_columns(request(("x", datatype, [1, 0])))
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
def test_numbers_never_become_narrower(kind: str, datatype: str, takes: str) -> None:
    value = "1" if datatype == "BYTES" else 1
    with pytest.raises(InvalidRequest, match=f'column "x": the model takes {takes}, got {datatype}$'):
        SignatureTable([spec(kind)]).of_columns(request(("x", datatype, [value])))


def test_rows_have_all_columns_in_order() -> None:
    table = SignatureTable([spec("double", "a"), spec("double", "b")])
    frame = table.of(np.array([[1, 2], [3, 4]]), 'input "rows"')
    assert frame.to_dict("list") == {"a": [1.0, 3.0], "b": [2.0, 4.0]}
    with pytest.raises(
        InvalidRequest, match=r'input "rows": the model takes shape \[-1, 2\], got \[1, 3\]; or'
    ):
        table.of(np.ones((1, 3)), 'input "rows"')


def test_columns_of_a_frame_that_the_signature_lacks_are_left_out() -> None:
    table = SignatureTable([spec("double", "a"), spec("string", "b", required=False)])
    given = pd.DataFrame({"c": [0], "a": [1]})
    frame = table.of(given, "")
    assert frame.to_dict("list") == {"a": [1.0]}
    assert given["a"].dtype == np.int64  # as it was
    with pytest.raises(InvalidRequest, match='column "a" is missing; the model has a, b'):
        table.of(given[["c"]], "")


def test_columns_without_names_have_their_places() -> None:
    table = SignatureTable([spec("double", None), spec("long", None)])
    frame = table.of_columns(request(("input-0", "FP64", [0.5]), ("input-1", "INT64", [2])))
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
def test_texts_are_read(kind: str, text: str, value: Any) -> None:
    frame = SignatureTable([spec(kind)]).of_columns(request(("x", "BYTES", [text])))
    assert frame["x"][0] == value


@pytest.mark.parametrize(
    ("kind", "text", "form"),
    [("datetime", "today's", "dates in the form of ISO 8601"), ("binary", "%", "base64"), ("", "{", "JSON")],
)
def test_texts_of_another_form_are_refused_without_their_contents(kind: str, text: str, form: str) -> None:
    with pytest.raises(InvalidRequest, match=f'^column "x": the model takes {form}$'):
        SignatureTable([spec(kind)]).of_columns(request(("x", "BYTES", [text])))
