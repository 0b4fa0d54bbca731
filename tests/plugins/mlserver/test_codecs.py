"""Codecs and their functions under MLServer's names."""

import numpy as np

from inferstream.ext.hosting import install_aliases
from tests.serving import tensor

install_aliases()


from mlserver.codecs import NumpyCodec, StringCodec  # type: ignore[import-not-found]
from mlserver.types import (  # type: ignore[import-not-found]
    InferenceRequest,
    RequestInput,
    RequestOutput,
    ResponseOutput,
)

install_aliases()

from mlserver.codecs.base import (  # type: ignore[import-not-found]
    _codec_registry,
    find_input_codec,
    find_request_codec,
)
from mlserver.types import (  # type: ignore[import-not-found]
    TensorData,
)


def request_of(*values: float, id: str | None = None) -> InferenceRequest:
    return InferenceRequest(id=id, inputs=[NumpyCodec.encode_input("x", np.array(values))])


def test_function_codec_accepts_mlserver_arguments() -> None:
    from mlserver.codecs.decorator import SignatureCodec

    def function(x: np.ndarray) -> list[str]: ...

    codec = SignatureCodec(function)
    assert codec.decode_request(request_of(1, 2))["x"].tolist() == [[1], [2]]
    response = codec.encode_response(model_name="m", payload=["a"])
    assert (response.model_name, response.model_version) == ("m", None)
    assert StringCodec.decode_output(response.outputs[0]) == ["a"]


def test_codecs_have_constants_used_by_runtimes() -> None:
    from mlserver.codecs import PandasCodec, StringRequestCodec
    from mlserver.codecs.base import find_request_codec

    assert PandasCodec.JsonContentType == "pd_json"
    assert find_request_codec(type_hint=list[str]) is StringRequestCodec


def test_codecs_are_found_and_registered_through_the_registry() -> None:
    from mlserver.codecs.base import _codec_registry, find_input_codec_by_payload

    class Own(StringCodec):
        ContentType = "test-names"

    _codec_registry.register_input_codec("test-names", Own)
    assert _codec_registry.find_input_codec(content_type="test-names") is Own
    assert find_input_codec_by_payload(["a"]) is StringCodec


def test_functions_accept_mlserver_arguments() -> None:
    from mlserver import ModelSettings
    from mlserver.codecs import (
        decode_inference_request,
        decode_request_input,
        encode_inference_response,
        encode_response_output,
    )

    settings = ModelSettings(
        name="m", implementation="a.B", parameters={"content_type": "np", "version": "1"}
    )
    request = InferenceRequest(inputs=[RequestInput(**tensor("x", "INT32", [1, 2]))])
    assert decode_request_input(request.inputs[0]) is None
    assert decode_inference_request(request, settings, {}).tolist() == [1, 2]
    response = encode_inference_response(np.array([1]), settings)
    assert (response.model_name, response.model_version) == ("m", "1")
    assert encode_inference_response(object(), settings) is None
    assert encode_response_output(["a"], RequestOutput(name="y")).data.root == [b"a"]
    assert encode_response_output(object(), RequestOutput(name="y")) is None


def test_arrays_round_trip_through_tensors() -> None:
    from mlserver.codecs.numpy import _encode_data, _to_ndarray, convert_nan, to_dtype

    assert _encode_data(np.array([[1.0, np.nan]]), "FP64") == [1.0, None]
    assert _encode_data(np.array(["a"]), "BYTES") == [b"a"]
    given = RequestInput(**tensor("x", "INT8", [1, 2], [2, 1]))
    assert _to_ndarray(given).tolist() == [[1], [2]]
    assert to_dtype(given) == np.int8
    assert (convert_nan(np.nan), convert_nan(1.5)) == (None, 1.5)
    assert to_dtype(RequestInput(**tensor("x", "BYTES", ["ab", "c"]))) == np.dtype(str)
    assert to_dtype(ResponseOutput(**tensor("x", "BYTES", [b"ab", b"cd"]))) == np.dtype("S2")
    assert to_dtype("BYTES") == np.dtype(object)


def test_only_lists_have_several_elements() -> None:
    from mlserver.codecs.lists import as_list
    from mlserver.types import TensorData

    data = TensorData(["a", "b"])
    assert [next(as_list(each)) for each in (["a"], "ab", b"ab", data)] == ["a", "ab", b"ab", data]


def test_tensors_are_packed_and_unpacked() -> None:
    from mlserver.raw import extract_raw, inject_raw

    tensors, raw = extract_raw(
        [RequestInput(**tensor("x", "INT16", [1, 2])), RequestInput(**tensor("y", "BYTES", ["a"]))]
    )
    assert raw == [b"\x01\x00\x02\x00", b"\x01\x00\x00\x00a"]
    assert [len(given.data) for given in tensors] == [0, 0]
    assert [given.data.flat() for given in inject_raw(tensors, raw)] == [[1, 2], [b"a"]]


def test_object_array_keeps_values() -> None:
    output = NumpyCodec.encode_output("x", np.array([None, "bar"]))
    assert (output.datatype, output.shape, output.data) == ("BYTES", [2, 1], TensorData([None, "bar"]))
    assert NumpyCodec.encode_output("x", np.array(["bar"])).data == TensorData([b"bar"])


def test_own_codecs_are_found_only_by_content_type() -> None:
    for find in (find_request_codec, _codec_registry.find_request_codec):
        assert find(type_hint=dict) is None
        assert find(payload={"a": np.array([1])}) is None
        assert find(content_type="dict").ContentType == "dict"
    for find in (find_input_codec, _codec_registry.find_input_codec):
        assert find(type_hint=dict) is None
        assert find(payload={"a": 1}) is None
        assert find(content_type="json").ContentType == "json"
