"""Codecs of single tensors, as requests and as what they refuse."""

import numpy as np
import pytest

from inferstream.codecs import (
    Base64Codec,
    DatetimeCodec,
    NumpyCodec,
    NumpyRequestCodec,
    StringCodec,
    StringRequestCodec,
)
from inferstream.codecs.json import JSONCodec
from inferstream.errors import CodecError
from inferstream.types import InferenceRequest, RequestInput


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
def test_undecodable_tensor_is_named(codec, tensor: RequestInput) -> None:
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
