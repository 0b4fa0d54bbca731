"""Comparison of responses, as that of a shadow with those of its model."""

import numpy as np
import pytest

from inferstream.codecs import NumpyCodec, StringCodec
from inferstream.plugins.traffic.comparison import describe_difference
from inferstream.plugins.traffic.tolerance import Tolerance
from inferstream.types import InferenceResponse, ResponseOutput


def numbers(*values: float, name: str = "y", dtype: str = "float32") -> InferenceResponse:
    outputs = [NumpyCodec.encode_output(name, np.array(values, dtype=dtype))]
    return InferenceResponse(model_name="m", outputs=outputs)


def texts(*values: str) -> InferenceResponse:
    return InferenceResponse(model_name="m", outputs=[StringCodec.encode_output("text", list(values))])


def images(*values: bytes) -> InferenceResponse:
    output = ResponseOutput(name="image", datatype="BYTES", shape=[len(values)], data=list(values))
    return InferenceResponse(model_name="m", outputs=[output])


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ([numbers(1, 2)], [numbers(1, 2.00001)]),
        ([numbers(float("nan"))], [numbers(float("nan"))]),
        ([texts("a", "b")], [texts("a", "b")]),
        ([images(b"\xff"), images(b"\xfe")], [images(b"\xff"), images(b"\xfe")]),
        ([texts("to"), texts("ken")], [texts("t"), texts("ok"), texts("en")]),
        ([numbers(1), numbers(2)], [numbers(1), numbers(2)]),
        ([], []),
    ],
)
def test_equal(expected: list, actual: list) -> None:
    assert describe_difference(expected, actual, Tolerance()) is None


@pytest.mark.parametrize(
    ("expected", "actual", "why"),
    [
        (
            [numbers(1, 2, 3)],
            [numbers(1, 2.5, 4)],
            'output "y": 2 of 3 numbers differ; the first of them is 2.5',
        ),
        ([numbers(1)], [numbers(1, 2)], 'output "y": the shapes are [[2, 1]], expected [[1, 1]]'),
        ([numbers(1)], [numbers(1, dtype="int64")], 'output "y": it is INT64, expected FP32'),
        ([numbers(1)], [numbers(1, name="z")], "it has the outputs z, expected y"),
        ([numbers(1)], [], "it has the outputs none, expected y"),
        ([texts("ab")], [texts("a", "b")], 'output "text": the texts differ'),
        ([texts("a"), texts("b")], [texts("a"), texts("c")], 'output "text": the texts differ'),
    ],
)
def test_different(expected: list, actual: list, why: str) -> None:
    assert (describe_difference(expected, actual, Tolerance()) or "").startswith(why)


def test_tolerance_follows_settings() -> None:
    assert describe_difference([numbers(100)], [numbers(101)], Tolerance(relative=0.02)) is None
    assert describe_difference([numbers(0)], [numbers(0.5)], Tolerance(absolute=0.5)) is None
