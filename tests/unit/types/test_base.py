"""Payloads and descriptions under the older names of pydantic."""

from inferstream.types import (
    InferenceRequest,
    RequestInput,
)

from .test_payload import TENSOR


def test_dump_omits_unset_fields_and_dict_keeps_none() -> None:
    request = InferenceRequest(inputs=[RequestInput(**TENSOR)])
    assert request.model_dump() == {"inputs": [TENSOR]}
    assert request.dict()["id"] is None
    assert InferenceRequest.parse_raw(request.json()) == request
    assert InferenceRequest.parse_obj(request.dict()).inputs[0].data.__root__ == [1.0]


def test_json_file_is_parsed(tmp_path) -> None:
    file = tmp_path / "request.json"
    file.write_text('{"inputs": [], "id": null}')
    assert InferenceRequest.parse_file(file).id is None
