"""V2's requests and responses, in JSON and with binary tensors."""

import json
from typing import Any

import numpy as np
import pytest

from inferstream import App, InferenceResponse, MLModel, ModelSettings, NumpyCodec, TensorInput
from inferstream.errors import InferenceFailed
from inferstream.server.rest.dialects.v2 import V2Request
from inferstream.types import InferenceRequest
from tests.asgi import asking

LENGTH = "inference-header-content-length"
VALUES = np.array([1.5, 2.5], np.float32)


def app() -> App:
    made = App()

    @made.model
    def double(x: TensorInput[np.float32, -1]) -> TensorInput[np.float32, -1]:
        return 2 * x

    return made


def tensor(**more: Any) -> dict[str, Any]:
    return {"name": "x", "shape": [2], "datatype": "FP32", **more}


def binary(tail: bytes = VALUES.tobytes(), **more: Any) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of a request with its tensor behind the JSON."""
    head = json.dumps({"inputs": [tensor(parameters={"binary_data_size": 8})], **more}).encode()
    return head + tail, {LENGTH: str(len(head))}


def doubled(answered: Any) -> list[float]:
    """The values of a response whose output is binary."""
    length = int(answered.headers[LENGTH])
    (output,) = json.loads(answered.content[:length])["outputs"]
    assert output["parameters"]["binary_data_size"] == len(answered.content) - length
    assert answered.headers["content-type"] == "application/octet-stream"
    return np.frombuffer(answered.content[length:], np.float32).tolist()


async def test_json_request_gets_json_response() -> None:
    async with asking(app()) as (client, _):
        answered = await client.post(
            "/v2/models/double/infer", json={"id": "a", "inputs": [tensor(data=[1.5, 2.5])]}
        )
    assert (answered.json()["outputs"][0]["data"], answered.json()["id"]) == ([3.0, 5.0], "a")
    assert LENGTH not in answered.headers


async def test_binary_input_is_read_and_requested_output_is_binary() -> None:
    async with asking(app()) as (client, _):
        body, headers = binary()
        plain = await client.post("/v2/models/double/infer", content=body, headers=headers)
        body, headers = binary(parameters={"binary_data_output": True})
        wanted = await client.post("/v2/models/double/infer", content=body, headers=headers)
    assert plain.json()["outputs"][0]["data"] == [3.0, 5.0]
    assert doubled(wanted) == [3.0, 5.0]


class Doubling(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        values = 2 * NumpyCodec.decode_input(payload.inputs[0])
        return InferenceResponse(model_name="m", outputs=[NumpyCodec.encode_output("y", values)])


async def test_body_without_json_is_the_only_input() -> None:
    declared = [{"name": "x", "datatype": "FP32", "shape": [-1]}]
    settings = ModelSettings(name="m", implementation=Doubling, inputs=declared)
    async with asking(settings) as (client, _):
        answered = await client.post("/v2/models/m/infer", content=VALUES.tobytes(), headers={LENGTH: "0"})
    assert answered.status_code == 200, answered.text
    assert doubled(answered) == [3.0, 5.0]


@pytest.mark.parametrize(("tail", "length"), [(b"1234", None), (b"", "9999"), (VALUES.tobytes() * 2, None)])
async def test_invalid_lengths_are_refused(tail: bytes, length: str | None) -> None:
    async with asking(app()) as (client, _):
        body, headers = binary(tail)
        headers |= {} if length is None else {LENGTH: length}
        refused = await client.post("/v2/models/double/infer", content=body, headers=headers)
    assert refused.status_code == 400
    assert refused.json()["error"]


@pytest.mark.parametrize(("id", "named"), [("a", {"id": "a"}), (None, {})])
def test_stream_failure_names_its_request(id: str | None, named: dict[str, str]) -> None:
    asked = V2Request(None, None, InferenceRequest(inputs=[], id=id), None)  # type: ignore[arg-type]
    event, data, *rest = asked.failure(InferenceFailed("broken")).decode().split("\n")
    assert (event, rest) == ("event: error", ["", ""])
    assert json.loads(data.removeprefix("data: ")) == {"error": "broken", "code": "internal", **named}
