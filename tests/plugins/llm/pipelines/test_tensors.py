"""Tensors become arguments by MLServer's content types, and results become the JSON that MLServer's clients read."""

import base64
from typing import Any

import numpy as np
import pytest

from inferstream.codecs import NumpyCodec
from inferstream.errors import CodecError
from inferstream.plugins.llm.pipelines.tensors import decode_arguments, encode_results
from inferstream.types import InferenceRequest, Parameters, RequestInput


def decoded(
    data: list[Any], content_type: str | None, datatype: str = "BYTES", general: str | None = None
) -> Any:
    parameters = Parameters(content_type=content_type) if content_type else None
    tensor = RequestInput(name="x", shape=[len(data)], datatype=datatype, data=data, parameters=parameters)
    request = InferenceRequest(inputs=[tensor], parameters=Parameters(content_type=general))
    return decode_arguments(request)["x"]


@pytest.mark.parametrize(
    ("data", "content_type", "value"),
    [
        ([b"a", "b"], None, ["a", "b"]),
        (["a"], "str", ["a"]),
        (["a"], "nonsense", ["a"]),
        (["YQ=="], "base64", [b"a"]),
        ([b"a"], "raw", "a"),
        (['{"text": "a", "of": [1, {"b": null}]}'], "hg_json", {"text": "a", "of": [1, {"b": None}]}),
        (['{"text": "a"}', b'{"text": "b"}'], "hg_jsonlist", [{"text": "a"}, {"text": "b"}]),
    ],
)
def test_input_is_decoded_by_content_type(data, content_type, value) -> None:
    assert decoded(data, content_type) == value
    if content_type is not None:
        assert decoded(data, None, general=content_type) == value, "that of the request"


def test_numbers_are_raw_values_or_array_lists() -> None:
    assert decoded([5], "raw", "INT64") == 5
    arrays = decoded([1.0, 2.0], "nplist", "FP32")
    assert [float(each) for each in arrays] == [1.0, 2.0]


def test_images_are_decoded_and_encoded() -> None:
    images = pytest.importorskip("PIL.Image")
    url = encode_results([images.new("RGB", (2, 3))]).data.flat()[0]
    encoded = url.strip(b'"').partition(b",")[2]
    assert url.startswith(b'"data:image/png;base64,')
    assert decoded([encoded], "pillow_image")[0].size == (2, 3)
    assert decoded([b'{"image": ' + url + b"}"], "hg_json")["image"].size == (2, 3)


@pytest.mark.parametrize("content_type", ["hg_json", "hg_jsonlist"])
@pytest.mark.parametrize("text", ["{", "[" * 100_000])
def test_invalid_json_names_input(content_type: str, text: str) -> None:
    with pytest.raises(CodecError, match=rf'^input "x": not "{content_type}": '):
        decoded([text], content_type)


def test_invalid_image_names_input() -> None:
    pytest.importorskip("PIL.Image")
    with pytest.raises(CodecError, match=r'^input "x": not "pillow_image": '):
        decoded([base64.b64encode(b"none")], "pillow_image")


def test_results_are_json_in_one_output() -> None:
    results = [{"label": "é", "score": np.float32(0.5)}, [1, 2], np.arange(2)]
    output = encode_results(results)
    assert (output.name, output.shape, output.datatype) == ("output", [3, 1], "BYTES")
    assert output.parameters is not None
    assert output.parameters.content_type == "hg_jsonlist"
    assert output.data.flat() == [b'{"label": "\\u00e9", "score": 0.5}', b"[1, 2]", b"[0, 1]"]


def test_non_json_result_is_reported() -> None:
    with pytest.raises(CodecError, match=r'^output "output": '):
        encode_results([object()])


def test_array_is_passed_as_decoded_by_numpy_codec() -> None:
    tensor = NumpyCodec.encode_input("x", np.eye(2))
    assert np.array_equal(decode_arguments(InferenceRequest(inputs=[tensor]))["x"], np.eye(2))
