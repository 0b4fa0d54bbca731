"""The types behave as MLServer's do: dumps, older calls, null, extra parameters."""

import pydantic
import pytest

from inferstream.types import Headers, InferenceRequest, Parameters, RequestInput, ResponseOutput

TENSOR = {"name": "x", "shape": [1], "datatype": "FP32", "data": [1.0]}


def test_dumps_leave_out_what_was_not_set_and_dict_keeps_none() -> None:
    request = InferenceRequest(inputs=[RequestInput(**TENSOR)])
    assert request.model_dump() == {"inputs": [TENSOR]}
    assert request.dict()["id"] is None
    assert InferenceRequest.parse_raw(request.json()) == request
    assert InferenceRequest.parse_obj(request.dict()).inputs[0].data.__root__ == [1.0]


def test_files_are_parsed(tmp_path) -> None:
    file = tmp_path / "request.json"
    file.write_text('{"inputs": [], "id": null}')
    assert InferenceRequest.parse_file(file).id is None


def test_parameters_keep_what_they_do_not_know() -> None:
    parameters = Parameters(content_type="np", custom={"deep": [1]})
    assert parameters.custom == {"deep": [1]}
    assert parameters.get("custom") == {"deep": [1]}
    assert parameters.get("nothing", 7) == 7
    parameters.keep_decoded("kept")
    assert parameters.decoded == "kept"
    assert "kept" not in parameters.model_dump_json()


def test_trusted_instances_are_like_validated_ones() -> None:
    made = RequestInput.trusted({**TENSOR, "data": RequestInput(**TENSOR).data})
    assert made == RequestInput(**TENSOR)
    assert made.model_dump() == TENSOR
    assert made.parameters is None


def test_an_unknown_datatype_is_refused_with_the_known_ones() -> None:
    with pytest.raises(pydantic.ValidationError, match="BF16"):
        ResponseOutput(name="x", shape=[1], datatype="FP31", data=[1])


def test_headers_are_decoded_case_insensitively_and_last_wins() -> None:
    headers = Headers([(b"X-A", b"1"), (b"x-a", b"2")])
    assert dict(headers) == {"x-a": "2"}
