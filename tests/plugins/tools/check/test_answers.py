"""Responses that a check compares, joins and describes."""

import numpy as np

from inferstream.codecs import NumpyCodec, StringCodec
from inferstream.plugins.tools.check.answers import (
    Answers,
    are_equal,
    decode_outputs,
    fits,
    join_answers,
    join_text,
    summarize_outputs,
)
from inferstream.types import InferenceResponse, MetadataTensor, ResponseOutput


def _answers(*outputs: ResponseOutput) -> Answers:
    return decode_outputs(InferenceResponse(model_name="m", outputs=list(outputs)))


def _numbers(*values: float, dtype: type = np.float32) -> Answers:
    return _answers(NumpyCodec.encode_output("y", np.array(values, dtype)))


def test_numbers_within_tolerance_are_equal_and_nan_equals_nan() -> None:
    assert are_equal(_numbers(1.0, float("nan")), _numbers(1.000001, float("nan")))
    assert not are_equal(_numbers(1.0), _numbers(1.1))
    assert not are_equal(_numbers(1.0), _numbers(1.0, dtype=np.float64))
    assert not are_equal(_numbers(1.0), _numbers(1.0, 2.0))


def test_strings_are_equal_with_and_without_content_type() -> None:
    output = StringCodec.encode_output("y", ["é"])
    bare = output.model_copy(update={"parameters": None})
    assert are_equal(_answers(output), _answers(bare))
    assert join_text(_answers(output)["y"]) == "é".encode()
    assert join_text(_numbers(1.0)["y"]) is None


def test_parts_are_joined_along_first_dimension() -> None:
    whole = join_answers([_numbers(1.0), _numbers(2.0, 3.0)])
    assert whole["y"].values.ravel().tolist() == [1.0, 2.0, 3.0]
    assert summarize_outputs(whole) == "y=[[1.0], [2.0], [3.0]] (FP32 [3, 1])"


def test_output_matches_declaration() -> None:
    answer = _numbers(1.0, 2.0)["y"]
    for datatype, shape, shaped, fitting in (
        ("FP32", [-1, 1], True, True),
        ("FP32", [2, 1], True, True),
        ("FP32", [3, 1], True, False),
        ("FP32", [-1], True, False),
        ("FP32", [-1], False, True),
        ("FP64", [-1, 1], False, False),
    ):
        assert fits(answer, MetadataTensor(name="y", datatype=datatype, shape=shape), shaped) is fitting
