"""Requests and responses as model code gets and copies them."""

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest

from inferstream.types import Headers, InferenceRequest, InferenceResponse, RequestInput, TensorData


class Connection:
    peer = "ipv4:127.0.0.1:1"
    identities = ()

    def __reduce__(self) -> None:
        raise TypeError("a connection")


@pytest.mark.parametrize("again", [copy.deepcopy, lambda request: pickle.loads(pickle.dumps(request))])
@pytest.mark.parametrize(
    "data", [TensorData.from_raw(b"\1\0\0\0", "INT32"), TensorData(np.array([1], "int32")), TensorData([1])]
)
def test_received_request_can_be_copied_and_pickled(
    again: Callable[[InferenceRequest], InferenceRequest], data: TensorData
) -> None:
    request = InferenceRequest.of([RequestInput.of("x", [1], "INT32", data)], id="r")
    request.carry(Headers([(b"A", b"b")], None, Connection()))
    made = again(request)
    assert made == request
    assert made.parameters.headers == {"a": "b"}
    made.inputs[0].data.root.append(2)
    assert request.inputs[0].data.to_numpy("INT32").tolist() == [1]


def test_assigned_dictionary_becomes_parameters() -> None:
    response = InferenceResponse(model_name="m", outputs=[])
    response.parameters = {"unit": "cm", "headers": {"x-a": "1"}}
    assert (response.parameters.unit, response.parameters.headers) == ("cm", {"x-a": "1"})
    response.parameters = None
    assert response.parameters is None
