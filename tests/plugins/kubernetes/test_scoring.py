"""Models that parse the bodies of `/invocations` themselves."""

from typing import Any

import httpx
import pytest

from inferstream import Application, MLModel, ModelSettings
from inferstream.codecs import NumpyCodec
from inferstream.plugins.kubernetes.scoring import let_score
from inferstream.types import InferenceRequest, InferenceResponse

V2 = {"inputs": [{"name": "x", "datatype": "INT64", "shape": [1], "data": [2]}]}
JSON = {"content-type": "application/json"}


class Doubling(MLModel):
    def predict(self, payload: InferenceRequest) -> Any:
        array = NumpyCodec.decode_input(payload.inputs[0]) * 2
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("y", array)])


class Scoring(Doubling):
    def score_body(self, body: bytes, media_type: str) -> tuple[int, str, str]:
        if body == b"fail":
            raise RuntimeError("the secret of the model")
        return (415 if body == b"wrong" else 200), "text/plain", f"{media_type}|{body.decode()}"


class Awaiting(Scoring):
    async def predict(self, payload: InferenceRequest) -> Any:  # type: ignore[override]
        return super().predict(payload)


def models(*kinds: type[MLModel], **options: Any) -> list[ModelSettings]:
    return [ModelSettings(name=kind.__name__.lower(), implementation=kind, **options) for kind in kinds]


def open_client(application: Application) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(application.asgi)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")


@pytest.mark.parametrize("options", [{}, {"max_batch_size": 4, "max_batch_time": 0.1}, {"cache": True}])
async def test_body_reaches_model_unchanged(options: dict[str, Any]) -> None:
    async with Application(models(Scoring, **options)) as application, open_client(application) as client:
        for sent, received in (
            ("text/csv", "text/csv"),
            ("application/json; charset=UTF-8", "application/json; charset=UTF-8"),
            ("application/x-www-form-urlencoded", "application/json"),
            (None, "application/json"),
        ):
            headers = {} if sent is None else {"content-type": sent}
            response = await client.post("/invocations", content=b"a,b\n1,2", headers=headers)
            assert (response.status_code, response.text) == (200, f"{received}|a,b\n1,2")
            assert response.headers["content-type"] == "text/plain"
        wrong = await client.post("/invocations", content=b"wrong", headers=JSON)
        assert (wrong.status_code, wrong.text) == (415, "application/json|wrong")
        failed = await client.post("/invocations", content=b"fail", headers=JSON)
        assert failed.status_code == 500
        assert "secret" not in failed.text


async def test_v2_requests_and_other_routes_are_unaffected() -> None:
    async with Application(models(Scoring)) as application, open_client(application) as client:
        response = await client.post("/invocations", json=V2)
        assert response.json()["outputs"][0]["data"] == [4]
        rows = await client.post("/v1/models/scoring:predict", json={"instances": [1, 2]})
        assert rows.json() == {"predictions": [2, 4]}
        for text in ('{"datatype": 1}', '"datatype'):
            body = await client.post("/invocations", content=text, headers=JSON)
            assert body.text == f"application/json|{text}"


@pytest.mark.parametrize(
    ("default", "predictions"), [("doubling", '{"predictions":[2]}'), ("scoring", "application/json|")]
)
async def test_default_model_selects_the_protocol(default: str, predictions: str) -> None:
    options = {"default_model": default}
    async with (
        Application(models(Doubling, Scoring), **options) as application,
        open_client(application) as client,
    ):
        response = await client.post("/invocations", json={"instances": [1]})
        assert response.text.startswith(predictions)


@pytest.mark.parametrize("kind", [Doubling, Awaiting])
def test_models_without_scoring(kind: type[MLModel]) -> None:
    assert not let_score(kind(models(kind)[0]))


def test_strict_validation_disables_scoring() -> None:
    [settings] = models(Scoring, input_validation="strict")
    assert not let_score(Scoring(settings))


async def test_scoring_parameter_of_a_v2_request_needs_a_body() -> None:
    async with Application(models(Scoring)) as application, open_client(application) as client:
        body = {**V2, "parameters": {"mlflow_scoring": "text/csv"}}
        response = await client.post("/v2/models/scoring/infer", json=body)
        assert response.status_code == 400
        assert "is a media type, and the input has datatype BYTES" in response.json()["error"]
