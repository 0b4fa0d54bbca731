"""What is decoded once stays with its tensor, and with no other."""

from inferstream.codecs import (
    DecodedParameterName,
    NumpyCodec,
    decode_request_input,
    get_decoded,
    get_decoded_or_raw,
    has_decoded,
)
from inferstream.types import (
    Parameters,
    TensorData,
)

from .test_lookup import numbers


def test_payload_is_decoded_once_and_not_serialized() -> None:
    tensor = numbers()
    before = tensor.model_dump()
    found = decode_request_input(tensor, {}, NumpyCodec)
    assert decode_request_input(tensor, {}, NumpyCodec) is found
    assert getattr(tensor.parameters, DecodedParameterName) is found
    assert tensor.model_dump() == before
    assert "parameters" not in tensor.json()


def test_tensors_sharing_parameters_do_not_share_payloads() -> None:
    shared = Parameters(content_type="np", kept="yes")
    first, second = numbers("a", shared, [1]), numbers("b", shared, [2])
    assert [decode_request_input(tensor).tolist() for tensor in (first, second)] == [[1], [2]]
    assert has_decoded(first)
    assert has_decoded(second)
    assert second.parameters.kept == "yes"


def test_changed_data_is_decoded_again() -> None:
    tensor = numbers(parameters=Parameters(content_type="np"))
    decode_request_input(tensor)
    tensor.data = TensorData([7])
    assert not has_decoded(tensor)
    assert get_decoded(tensor) is None
    assert get_decoded_or_raw(tensor) is tensor.data
    assert decode_request_input(tensor).tolist() == [7]
