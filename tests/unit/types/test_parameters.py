"""Parameters, and the headers that come with them."""

import copy
import pickle

import numpy as np
import pytest

from inferstream.codecs import NumpyCodec, StringCodec, StringRequestCodec
from inferstream.types import (
    Headers,
    InferenceRequest,
    Parameters,
    RequestInput,
)

from .test_payload import TENSOR


def test_parameters_keep_unknown_fields() -> None:
    parameters = Parameters(content_type="np", custom={"deep": [1]})
    assert parameters.custom == {"deep": [1]}
    assert parameters.get("custom") == {"deep": [1]}
    assert parameters.get("nothing", 7) == 7
    object.__setattr__(parameters, "_decoded_payload", "kept")
    assert parameters.has_decoded
    assert "kept" not in parameters.model_dump_json()


def test_headers_are_case_insensitive_and_the_last_wins() -> None:
    headers = Headers([(b"X-A", b"1"), (b"x-a", b"2")])
    assert dict(headers) == {"x-a": "2"}


@pytest.mark.parametrize(
    "parameters",
    [
        lambda: Parameters(content_type="str"),
        lambda: Parameters.of(None, "str"),
        lambda: StringCodec.encode_output("x", ["a"]).parameters,
        lambda: NumpyCodec.encode_output("x", np.zeros(1)).parameters,
        lambda: StringRequestCodec.encode_response("m", ["a"]).parameters,
    ],
)
def test_additional_parameters_can_be_set(parameters) -> None:
    made = parameters()
    before = made.model_dump()
    made.score = 0.5
    assert made.score == 0.5
    assert made.model_dump() == {**before, "score": 0.5}


def test_later_headers_are_not_dumped() -> None:
    for read_first in (False, True):
        request = StringRequestCodec.encode_request(["a"])
        if read_first:
            request.model_dump()
        request.carry({"authorization": "secret"})
        assert request.model_dump()["parameters"] == {"content_type": "str"}
        assert "secret" not in request.model_dump_json()


@pytest.mark.parametrize(
    "copied",
    [
        copy.copy,
        copy.deepcopy,
        lambda request: request.model_copy(deep=True),
        lambda request: pickle.loads(pickle.dumps(request)),  # its own bytes
    ],
)
def test_request_copies_hide_server_headers(copied) -> None:
    request = InferenceRequest(inputs=[RequestInput(**TENSOR)])
    assert copied(request) == request
    request.carry({"authorization": "secret"})
    made = copied(request)
    assert made == request
    assert made.dict() == request.dict()
    assert made.parameters.headers["authorization"] == "secret"
