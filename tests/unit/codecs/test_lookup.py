"""Content types, declarations and payloads choose a codec; what it made is kept with its tensor and nowhere else."""

import numpy as np
import pytest

from inferstream import codecs
from inferstream.codecs import (
    NumpyCodec,
    NumpyRequestCodec,
    StringCodec,
    decode_inference_request,
    decode_request_input,
    encode_inference_response,
    encode_response_output,
    get_decoded,
    get_decoded_or_raw,
    has_decoded,
)
from inferstream.errors import CodecError, CodecNotFound
from inferstream.types import (
    InferenceRequest,
    MetadataTensor,
    Parameters,
    RequestInput,
    RequestOutput,
    TensorData,
)


def numbers(
    name: str = "x", parameters: Parameters | None = None, data: list[int] | None = None
) -> RequestInput:
    return RequestInput(name=name, shape=[1], datatype="INT64", data=data or [1], parameters=parameters)


def declared(content_type: str) -> dict[str, MetadataTensor]:
    parameters = Parameters(content_type=content_type)
    return {"x": MetadataTensor(name="x", datatype="INT64", shape=[-1], parameters=parameters)}


def test_exported_content_types_exist_and_are_sorted() -> None:
    assert sorted(codecs.__all__) == codecs.__all__
    assert all(getattr(codecs, name) is not None for name in codecs.__all__)
    with pytest.raises(AttributeError, match="Nothing"):
        _ = codecs.Nothing


def test_tensor_content_type_overrides_declared_one() -> None:
    text = RequestInput(
        name="x", shape=[1], datatype="BYTES", data=["a"], parameters=Parameters(content_type="str")
    )
    assert decode_request_input(text, declared("np")) == ["a"]
    assert decode_request_input(numbers(), declared("np")).tolist() == [1]


def test_unknown_content_type_falls_back_to_default_and_data() -> None:
    unknown = Parameters(content_type="nothing")
    assert decode_request_input(numbers(parameters=unknown), {}, NumpyCodec).tolist() == [1]
    data = decode_request_input(numbers(parameters=unknown))
    assert isinstance(data, TensorData)
    assert data.root == [1]


def test_inputs_are_decoded_before_the_request() -> None:
    request = InferenceRequest(inputs=[numbers(parameters=Parameters(content_type="np"))])
    assert decode_inference_request(request) is request
    assert has_decoded(request.inputs[0])
    found = decode_inference_request(request, content_type="np")
    assert found is get_decoded(request.inputs[0])
    assert get_decoded_or_raw(request) is found
    assert decode_inference_request(request, content_type="np") is found


def test_outputs_use_requested_declared_or_inferred_codec() -> None:
    asked = RequestOutput(name="x", parameters=Parameters(content_type="base64"))
    plain = RequestOutput(name="x")
    assert encode_response_output(["a"], asked).data.root == [b"YQ=="]
    assert encode_response_output(["a"], plain, declared("base64")).data.root == [b"YQ=="]
    assert encode_response_output(["a"], plain).parameters.content_type == "str"
    assert encode_response_output({"a"}, plain, {}, StringCodec).data.root == [b"a"]
    with pytest.raises(CodecNotFound, match="'x' of type set"):
        encode_response_output({"a"}, plain)


def test_responses_are_encoded_by_payload_type() -> None:
    assert encode_inference_response(np.ones(2), "m", "v").outputs[0].name == "output-1"
    with pytest.raises(CodecNotFound, match="set"):
        encode_inference_response({"a"}, "m")
    assert encode_inference_response([1.0], "m", None, NumpyRequestCodec).outputs[0].shape == [1, 1]


@pytest.mark.parametrize(
    ("content_type", "payload"),
    [
        ("str", [1]),
        ("str", 5),
        ("str", ["\ud800"]),
        ("base64", np.ones(2)),
        ("datetime", np.ones(2)),
        ("json", [object()]),
        ("np", [[1], [1, 2]]),
        ("np", {"a": 1}),
        ("np", np.array(["2026"], "datetime64[Y]")),
        ("np", np.array([1j])),
    ],
)
def test_mismatched_content_type_is_refused_by_name(content_type: str, payload) -> None:
    asked = RequestOutput(name="bad", parameters=Parameters(content_type=content_type))
    with pytest.raises(CodecError, match='output "bad"'):
        encode_response_output(payload, asked)


@pytest.mark.parametrize("name", ["encode", "decode"])
def test_deprecated_names_work_and_warn(name: str) -> None:
    argument = ("x", ["a"]) if name == "encode" else (StringCodec.encode_input("x", ["a"]),)
    with pytest.warns(DeprecationWarning, match=f"use {name}_"):
        getattr(StringCodec, name)(*argument)
    request = (NumpyRequestCodec.encode_request(np.ones(1)),)
    with pytest.warns(DeprecationWarning, match=f"use {name}_"):
        getattr(NumpyRequestCodec, name)(*(("m", np.ones(1)) if name == "encode" else request))
