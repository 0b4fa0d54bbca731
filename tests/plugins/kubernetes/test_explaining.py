"""Models with a method `explain`."""

from typing import Any

import httpx
import numpy as np
import pytest

from inferstream import App, Application, MLModel, ModelSettings, custom_handler
from inferstream.codecs import NumpyCodec
from inferstream.plugins.kubernetes.explaining import let_explain
from inferstream.types import InferenceRequest, InferenceResponse

app = App()


@app.model
def double(n: int) -> int:
    return 2 * n


class Base(MLModel):
    def answer(self, payload: InferenceRequest, factor: int) -> InferenceResponse:
        array = NumpyCodec.decode_input(payload.inputs[0]) * factor
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("y", array)])


class Blocking(Base):
    def predict(self, payload: InferenceRequest) -> Any:
        return self.answer(payload, 1)

    def explain(self, payload: InferenceRequest) -> Any:
        """Its own predictions, ten times, and that nobody who calls `predict` explains again."""
        assert payload.parameters is not None
        assert payload.parameters.get("depth") == 2
        self.predict(payload)
        return self.answer(payload, 10)


class Awaiting(Base):
    async def predict(self, payload: InferenceRequest) -> Any:
        return self.answer(payload, 1)

    async def explain(self, payload: InferenceRequest) -> Any:
        return self.answer(payload, 10)


class Mixed(Awaiting):
    def explain(self, payload: InferenceRequest) -> Any:  # type: ignore[override]
        return self.answer(payload, 10)


class Other(Blocking):
    async def explain(self, payload: InferenceRequest) -> Any:
        return self.answer(payload, 10)


class Silent(Base):
    def predict(self, payload: InferenceRequest) -> Any:
        return self.answer(payload, 1)


class Helping(Silent):
    def explain(self, rows: Any, columns: Any) -> None:
        """No explanation of a request."""


class Routed(Silent):
    @custom_handler("/own")
    def explain(self, payload: dict[str, Any]) -> None:
        """A route of its own."""


KINDS = {"blocking": Blocking, "awaiting": Awaiting, "mixed": Mixed, "other": Other, "silent": Silent}


@pytest.mark.parametrize("batching", [{}, {"max_batch_size": 4, "max_batch_time": 0.1}])
async def test_explanations_next_to_predictions(batching: dict[str, Any]) -> None:
    models = [ModelSettings(name=name, implementation=kind, **batching) for name, kind in KINDS.items()]
    body = {"instances": [[1.0, 2.0], [3.0, 4.0]], "parameters": {"depth": 2}}
    async with Application([app, *models]) as application:
        transport = httpx.ASGITransport(application.asgi)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            for name in KINDS:
                predicted = await client.post(f"/v1/models/{name}:predict", json=body)
                assert predicted.json() == {"predictions": body["instances"]}, name
                explained = await client.post(f"/v1/models/{name}:explain", json=body)
                if name == "silent":
                    assert explained.status_code == 501
                    assert explained.json()["error"] == "Model silent has no method explain."
                    continue
                expected = (10 * np.array(body["instances"])).tolist()
                assert explained.json() == {"explanations": expected}, name
            assert (await client.post("/v1/models/double:explain", json=body)).status_code == 501
            assert (await client.post("/v1/models/nobody:explain", json=body)).status_code == 404
            named = await client.post("/v1/models/awaiting:explain", json={"inputs": body["instances"]})
            assert named.status_code == 200


@pytest.mark.parametrize("kind", [Silent, Helping, Routed])
def test_other_methods_of_explanations(kind: type[Base]) -> None:
    model = kind(ModelSettings(name="m", implementation=kind))
    assert not let_explain(model)
    assert "predict" not in vars(model)
