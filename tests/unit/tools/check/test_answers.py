"""Responses that a check compares, joins and describes."""

import numpy as np

from inferstream.codecs import NumpyCodec, StringCodec
from inferstream.tools.check.answers import Answers, answers, brief, fits, joined, same, text
from inferstream.types import InferenceResponse, MetadataTensor, ResponseOutput


def _answers(*outputs: ResponseOutput) -> Answers:
    return answers(InferenceResponse(model_name="m", outputs=list(outputs)))


def _numbers(*values: float, dtype: type = np.float32) -> Answers:
    return _answers(NumpyCodec.encode_output("y", np.array(values, dtype)))


def test_numbers_within_the_tolerance_are_the_same_and_nan_is_itself() -> None:
    assert same(_numbers(1.0, float("nan")), _numbers(1.000001, float("nan")))
    assert not same(_numbers(1.0), _numbers(1.1))
    assert not same(_numbers(1.0), _numbers(1.0, dtype=np.float64))
    assert not same(_numbers(1.0), _numbers(1.0, 2.0))


def test_texts_are_the_same_with_and_without_a_content_type() -> None:
    output = StringCodec.encode_output("y", ["é"])
    bare = output.model_copy(update={"parameters": None})
    assert same(_answers(output), _answers(bare))
    assert text(_answers(output)["y"]) == "é".encode()
    assert text(_numbers(1.0)["y"]) is None


def test_parts_are_joined_along_their_first_dimension() -> None:
    whole = joined([_numbers(1.0), _numbers(2.0, 3.0)])
    assert whole["y"].values.ravel().tolist() == [1.0, 2.0, 3.0]
    assert brief(whole) == "y=[[1.0], [2.0], [3.0]] (FP32 [3, 1])"


def test_an_output_fits_its_declaration() -> None:
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
