"""Instances of KServe's V1, SageMaker and Vertex AI: rows of one request, or a request each."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import numpy as np
import pytest

from inferstream import App, Application, MetadataTensor, MLModel, ModelSettings, custom_handler
from inferstream.codecs import NumpyCodec, StringCodec
from inferstream.types import InferenceResponse

app = App()


@app.model
def add(a: int, b: int = 1) -> int:
    return a + b


@app.model
def shout(text: str) -> str:
    return text.upper()


class Doubling(MLModel):
    """Doubles arrays, whatever they are called, and says which requests it had."""

    async def predict(self, payload):  # type: ignore[no-untyped-def]
        arrays = {tensor.name: NumpyCodec.decode_input(tensor) * 2 for tensor in payload.inputs}
        return InferenceResponse(
            model_name=self.name,
            outputs=[NumpyCodec.encode_output(name, array) for name, array in arrays.items()],
        )


class Prompted(MLModel):
    """Takes one text at a time."""

    async def predict(self, payload):  # type: ignore[no-untyped-def]
        [text] = StringCodec.decode_input(payload.inputs[0])
        limit = getattr(payload.parameters, "max_tokens", 99)
        return InferenceResponse(
            model_name=self.name, outputs=[StringCodec.encode_output("text", [text[:limit]])]
        )


class Pinging(MLModel):
    @custom_handler(rest_path="/ping", rest_method="GET")
    async def ping(self) -> str:
        return "mine"


TEXT = MetadataTensor(name="text", datatype="BYTES", shape=[1])
ROWS = MetadataTensor(name="rows", datatype="FP32", shape=[-1, 2])
CLASSES = {"doubling": (Doubling, []), "declared": (Doubling, [ROWS]), "prompted": (Prompted, [TEXT])}


@asynccontextmanager
async def serving(models: Any, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        Application(models, **settings) as application,
        httpx.AsyncClient(
            transport=httpx.ASGITransport(application.asgi), base_url="http://127.0.0.1"
        ) as client,
    ):
        yield client


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    classes = [
        ModelSettings(name=name, implementation=kind, inputs=inputs)
        for name, (kind, inputs) in CLASSES.items()
    ]
    async with serving([app, *classes]) as client:
        yield client


async def predict(client: httpx.AsyncClient, model: str, body: Any) -> httpx.Response:
    return await client.post(f"/v1/models/{model}:predict", json=body)


@pytest.mark.parametrize(
    ("model", "body", "predictions"),
    [
        ("doubling", {"instances": [1, 2]}, [2, 4]),
        ("doubling", {"instances": [[1.5, 2], [3, 4]]}, [[3.0, 4.0], [6.0, 8.0]]),
        ("doubling", {"inputs": [[1, 2]]}, [[2, 4]]),
        ("doubling", {"instances": [{"a": 1, "b": [1, 2]}, {"a": 2, "b": [3, 4]}]},
         [{"a": 2, "b": [2, 4]}, {"a": 4, "b": [6, 8]}]),
        ("declared", {"instances": [[1, 2], [3, 4]], "signature_name": "x"}, [[2.0, 4.0], [6.0, 8.0]]),
        ("declared", {"instances": [{"rows": [1, 2]}]}, [[2.0, 4.0]]),
        ("prompted", {"instances": ["one", {"text": "two"}]}, ["one", "two"]),
        ("prompted", {"instances": ["one"], "parameters": {"max_tokens": 1}}, ["o"]),
        ("add", {"instances": [{"a": 1, "b": 2}]}, [3]),
        ("add", {"instances": [{"a": 1, "b": 2}, 5, {"a": 9}]}, [3, 6, 10]),
        ("shout", {"instances": ["a"]}, ["A"]),
        ("doubling", {"inputs": {"a": [1, 2], "b": [3, 4]}}, [{"a": 2, "b": 6}, {"a": 4, "b": 8}]),
        ("doubling", {"dataframe_split": {"columns": ["a", "b"], "data": [[1, 2], [3, 4]]}},
         [{"a": 2, "b": 4}, {"a": 6, "b": 8}]),
        ("doubling", {"dataframe_split": {"columns": ["a"], "index": [7], "data": [[1]]}}, [2]),
        ("doubling", {"dataframe_split": {"data": [[1, 2]]}}, [[2, 4]]),
        ("doubling", {"dataframe_records": [{"a": 1, "b": 2}]}, [{"a": 2, "b": 4}]),
        ("declared", {"dataframe_records": [{"rows": [1, 2]}]}, [[2.0, 4.0]]),
        ("prompted", {"dataframe_split": {"columns": ["text"], "data": [["one"], ["two"]]}}, ["one", "two"]),
        ("prompted", {"inputs": {"text": ["one"]}}, ["one"]),
        ("prompted", {"instances": ["one"], "params": {"max_tokens": 1}}, ["o"]),
        ("prompted", {"instances": ["one"], "parameters": {}, "params": {"max_tokens": 1}}, ["o"]),
        ("prompted", {"instances": [{"b64": "b25l"}, {"text": {"b64": "dHdv"}}]}, ["one", "two"]),
        ("add", {"dataframe_records": [{"a": 1, "b": 2}, {"a": 3, "b": 4}]}, [3, 7]),
        ("add", {"inputs": {"a": 1, "b": 2}}, [3]),
        ("add", {"instances": [1, {"a": 2}], "parameters": {"b": 5}}, [6, 7]),
        ("add", {"instances": [1], "params": {"b": 5}}, [6]),
    ],
    ids=str,
)  # fmt: skip
async def test_each_instance_has_a_prediction(client, model: str, body: Any, predictions: list[Any]) -> None:
    response = await predict(client, model, body)
    assert response.status_code == 200, response.text
    assert response.json() == {"predictions": predictions}


async def test_many_numbers_stay_an_array(client: httpx.AsyncClient) -> None:
    rows = np.arange(8192, dtype=float).reshape(-1, 2)
    response = await predict(client, "declared", {"instances": rows.tolist()})
    assert response.json()["predictions"] == (rows * 2).tolist()
    response = await predict(client, "add", {"instances": [*range(200)]})
    assert response.json()["predictions"] == [*range(1, 201)]


async def test_request_instances_are_limited(client: httpx.AsyncClient) -> None:
    for instance in (1, {"a": 1}):
        response = await predict(client, "add", {"instances": [instance] * 16_385})
        assert response.status_code == 400, response.text
        assert response.json()["error"].startswith('"instances": 16385 are more than the 16384')


@pytest.mark.parametrize(
    ("model", "body", "said"),
    [
        ("add", {"instances": []}, '"instances" must be a list with an instance or more'),
        ("prompted", {"instances": [[]]}, 'input "text"'),
        ("add", {}, '"instances" must be a list with an instance or more'),
        ("add", [1], "The body must be a JSON object."),
        ("add", {"instances": [{"c": 1}]}, '"c" is no argument of the model; it takes a, b (optional)'),
        ("doubling", {"instances": [{"a": 1}, {"b": 1}]}, 'row 1 has no "a", which row 0 has'),
        ("doubling", {"instances": [1, {"b": 1}]}, 'input "input-0" must be a value or lists of values'),
        ("prompted", {"instances": ["x"], "parameters": {"a": [1]}}, '"parameters" must be an object of'),
        ("prompted", {"instances": ["x"], "params": [1]}, '"params" must be an object of'),
        (
            "prompted",
            {"instances": ["x"], "params": {"a": 1}, "parameters": {"a": 1}},
            '"parameters" and "params" are both given',
        ),
        ("prompted", {"instances": ["x"], "inputs": ["x"]}, '"instances" and "inputs" are both given'),
        ("prompted", {"instances": ["x"], "parms": {"a": 1}}, '"parms" is not a field of this request'),
        ("prompted", {"instances": [{"b64": "%"}]}, '"b64" must be a string in base64'),
        ("prompted", {"instances": [{"b64": 1}]}, '"b64" must be a string in base64'),
        ("doubling", {"dataframe_split": [1]}, '"dataframe_split" must be an object of'),
        ("doubling", {"dataframe_split": {"columns": ["a"]}}, '"dataframe_split" must be an object of'),
        (
            "doubling",
            {"dataframe_split": {"columns": 1, "data": [[1]]}},
            '"dataframe_split": "columns" must be a list',
        ),
        (
            "doubling",
            {"dataframe_split": {"columns": ["a"], "data": [1]}},
            '"dataframe_split": "data[0]" must be a list',
        ),
        (
            "doubling",
            {"dataframe_split": {"columns": ["a"], "data": [[1, 2]]}},
            '"dataframe_split": row 0 has 2 values, and there',
        ),
        (
            "doubling",
            {"dataframe_split": {"columns": ["a", "a"], "data": [[1, 2]]}},
            '"dataframe_split": a name is twice',
        ),
        (
            "doubling",
            {"dataframe_split": {"columns": ["a"], "data": []}},
            '"dataframe_split" must be a list with',
        ),
        ("doubling", {"dataframe_records": {}}, '"dataframe_records" must be a list with'),
        ("doubling", {"inputs": {}}, '"inputs" must be a list with'),
        (
            "doubling",
            {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}], "params": {"a": 1}},
            '"params" is not a field of a V2 request; it has "parameters"',
        ),
        (
            "add",
            {"instances": [{"a": 1, "b": 2}], "parameters": {"b": 3}},
            '"b" is in an instance and in the',
        ),
        ("add", {"instances": [1], "parameters": {"c": 3}}, '"c" is no argument of the model'),
    ],
    ids=str,
)
async def test_invalid_field_is_named(client, model: str, body: Any, said: str) -> None:
    response = await predict(client, model, body)
    assert response.status_code == 400
    assert response.json()["error"].startswith(said)


async def test_duplicate_key_is_refused(client: httpx.AsyncClient) -> None:
    body = b'{"instances": [{"a": 1, "a": 2}]}'
    response = await client.post("/v1/models/add:predict", content=body)
    assert (response.status_code, response.json()["error"]) == (400, 'key "a" is given twice')


async def test_non_json_numbers_are_refused(client: httpx.AsyncClient) -> None:
    body = b'{"instances": [%b1,,2]}' % (b"1," * 5000)
    response = await client.post("/v1/models/add:predict", content=body)
    assert response.status_code == 400, response.text


async def test_v2_request_gets_v2_response(client: httpx.AsyncClient) -> None:
    tensor = {"name": "a", "datatype": "INT64", "shape": [1], "data": [2]}
    response = await predict(client, "add", {"inputs": [tensor]})
    assert response.json()["outputs"][0]["data"] == [3]


async def test_unknown_models_and_versions(client: httpx.AsyncClient) -> None:
    assert (await predict(client, "unknown", {"instances": [1]})).status_code == 404
    assert (await predict(client, "add/versions/9", {"instances": [1]})).status_code == 404
    assert (await client.get("/v1/models/add:predict")).status_code == 405


async def test_request_without_model_uses_the_only_one(client: httpx.AsyncClient) -> None:
    response = await client.post("/invocations", json={"instances": [1]})
    assert response.status_code == 400
    assert "there are add, declared, doubling, prompted, shout. The setting" in response.json()["error"]
    async with serving([app], default_model="add") as other:
        response = await other.post("/invocations", json={"instances": [{"a": 1}]})
        assert response.json() == {"predictions": [2]}


async def test_sagemaker_ping(client: httpx.AsyncClient) -> None:
    assert (await client.get("/ping")).status_code == 200


async def test_custom_route_takes_precedence() -> None:
    async with serving([ModelSettings(name="pinging", implementation=Pinging)]) as client:
        assert (await client.get("/ping")).json() == "mine"


async def test_vertex_variables_set_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/v1/endpoints/7/deployedModels/8"
    monkeypatch.setenv("AIP_HEALTH_ROUTE", path)
    monkeypatch.setenv("AIP_PREDICT_ROUTE", f"{path}:predict")
    async with serving([ModelSettings(name="m", implementation=Doubling)]) as client:
        assert (await client.get(path)).status_code == 200
        body = {"instances": [[1, 2]], "parameters": {"confidence": 0.5}}
        response = await client.post(f"{path}:predict", json=body)
        assert response.json() == {"predictions": [[2, 4]]}


@pytest.mark.parametrize(
    ("health", "predict"),
    [
        ("/v2/health/ready", "/v1/models/m:predict"),
        ("/ping", "/invocations"),
        ("/v2/health/live", "/v2/models/m/infer"),
    ],
)
async def test_server_paths_are_kept(health: str, predict: str, monkeypatch) -> None:
    monkeypatch.setenv("AIP_HEALTH_ROUTE", health)
    monkeypatch.setenv("AIP_PREDICT_ROUTE", predict)
    async with serving([ModelSettings(name="m", implementation=Doubling)]) as client:
        assert (await client.get(health)).status_code == 200
        tensor = {"name": "a", "datatype": "INT64", "shape": [1], "data": [2]}
        assert (await client.post(predict, json={"inputs": [tensor]})).status_code == 200


@pytest.mark.parametrize("path", ["/v1/models/doubling:predict", "/invocations"])
@pytest.mark.parametrize(
    "media_type",
    [
        *("text/csv", "text/csv; charset=utf-8", "application/x-npy", "application/jsonlines"),
        "application/x-parquet",
    ],
)
async def test_invalid_json_in_documented_body_is_named(media_type: str, path: str) -> None:
    async with serving([ModelSettings(name="doubling", implementation=Doubling)]) as client:
        response = await client.post(path, content=b"a,b\n1,2\n", headers={"content-type": media_type})
    assert response.status_code == 400
    assert response.json()["error"].startswith(
        f"content-type: {media_type.partition(';')[0]} is not read here"
    )
