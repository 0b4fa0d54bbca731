"""Every form of request that models without code take, and the bytes of the response to it.

Metadata that a runtime finds out by itself must not make any of them an error.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
import pytest

from inferstream import ModelSettings, testing
from inferstream.codecs import PandasCodec
from inferstream.types import InferenceRequest
from tests.artefacts import models

pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")
"""scikit-learn warns of arrays for a model that was fitted on a data frame."""

FLOWERS = models.FLOWERS[5::50]
COLUMNS = ["sepal length (cm)", "sepal width (cm)", "petal length (cm)", "petal width (cm)"]
KINDS = ["arrays", "frames", "boosted", "boosted-frames", "light", "light-frames"]


def write_models(root: Path) -> dict[str, tuple[str, Path]]:
    """One model of each runtime, fitted on arrays and on data frames: runtime and file by name."""
    sklearn, xgboost, lightgbm = (
        f"inferstream.plugins.frameworks.{each}"
        for each in ("sklearn.SKLearnModel", "xgboost.XGBoostModel", "lightgbm.LightGBMModel")
    )
    folders = {name: root / name for name in (*KINDS, "people", "texts", "mlserver")}
    for folder in folders.values():
        folder.mkdir()
    return {
        "arrays": (sklearn, models.dumped(models.classifier(), folders["arrays"])),
        "frames": (sklearn, models.dumped(models.frame_classifier(), folders["frames"])),
        "boosted": (xgboost, models.boosted("XGBClassifier", folders["boosted"], "model.json")),
        "boosted-frames": (xgboost, models.boosted_frames(folders["boosted-frames"])),
        "light": (lightgbm, models.light(folders["light"])),
        "light-frames": (lightgbm, models.light_frames(folders["light-frames"])),
        "people": (sklearn, models.dumped(models.frame_pipeline(), folders["people"])),
        "texts": (sklearn, models.dumped(models.text_classifier(), folders["texts"])),
        "mlserver": (
            "mlserver_sklearn.SKLearnModel",
            models.dumped(models.frame_classifier(), folders["mlserver"]),
        ),
    }


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Client"]:
    found = write_models(tmp_path_factory.mktemp("forms"))
    settings = [
        ModelSettings(name=name, implementation=runtime, parameters={"uri": str(path)})
        for name, (runtime, path) in found.items()
    ]
    with asyncio.Runner() as runner:
        app = testing.run(settings)
        served = runner.run(app.__aenter__())
        yield Client(runner, served.application.asgi)
        runner.run(app.__aexit__(None, None, None))


class Client:
    """Asks an ASGI application, from tests that share it."""

    def __init__(self, runner: asyncio.Runner, asgi: Any) -> None:
        self._runner = runner
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(asgi), base_url="http://m")

    def get(self, path: str) -> httpx.Response:
        return self._runner.run(self._client.get(path))

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self._runner.run(self._client.post(path, **options))


def one(name: str, datatype: str, rows: Any, **more: Any) -> dict[str, Any]:
    shape = list(np.shape(rows))
    return {
        "name": name,
        "datatype": datatype,
        "shape": shape,
        "data": np.asarray(rows).ravel().tolist(),
        **more,
    }


def asked(client: Client, model: str, body: Any, action: str = "infer", status: int = 200) -> bytes:
    answer = client.post(f"/v2/models/{model}/{action}", json=body)
    assert answer.status_code == status, answer.text
    return answer.content


def response(model: str, **outputs: Any) -> bytes:
    """The bytes of the response with the id "1"."""
    datatypes = {"i": "INT64", "f": "FP64", "U": "BYTES", "O": "BYTES"}
    tensors = []
    for name, values in outputs.items():
        array = np.asarray(values)
        datatype = "FP32" if array.dtype == np.float32 else "INT32" if array.dtype == np.int32 else None
        shape = [*array.shape, 1] if array.ndim == 1 else [*array.shape]
        tensors.append(
            {
                "name": name,
                "shape": shape,
                "datatype": datatype or datatypes[array.dtype.kind],
                "data": array.ravel().tolist() if array.dtype != np.float32 else array.ravel(),
                "parameters": {"content_type": "np"},
            }
        )
    document = {"model_name": model, "id": "1", "outputs": tensors}
    return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)


def expected(model: str, rows: Any) -> bytes:
    """The response with the default output."""
    rows = np.asarray(rows, float)
    if model.startswith("boosted"):
        return response(model, predict=models.predicted("boosted", rows))
    if model.startswith("light"):
        return response(model, predict=models.predicted("light", rows))
    return response(model, predict=models.classifier().predict(rows))


@pytest.mark.parametrize("model", [*KINDS, "mlserver"])
@pytest.mark.parametrize("name", ["predict", "input-0", "foo", "features", COLUMNS[0]])
def test_single_tensor_of_any_name(client: Client, model: str, name: str) -> None:
    found = asked(client, model, {"id": "1", "inputs": [one(name, "FP64", FLOWERS)]})
    assert found == expected(model, FLOWERS)


@pytest.mark.parametrize("model", [*KINDS, "mlserver"])
@pytest.mark.parametrize("datatype", ["FP64", "FP32", "INT64", "INT32", "INT8", "UINT8", "BOOL"])
def test_single_tensor_of_any_datatype(client: Client, model: str, datatype: str) -> None:
    kind = bool if datatype == "BOOL" else int if "INT" in datatype else np.float32
    rows = (FLOWERS // 1).astype(kind) if datatype != "FP32" else np.round(FLOWERS * 4) / 4
    found = asked(client, model, {"id": "1", "inputs": [one("predict", datatype, rows)]})
    assert found == expected(model, rows)


@pytest.mark.parametrize("model", [*KINDS, "mlserver"])
def test_single_tensor_with_nested_data_and_content_types(client: Client, model: str) -> None:
    nested = {**one("x", "FP64", FLOWERS), "data": FLOWERS.tolist()}
    assert asked(client, model, {"id": "1", "inputs": [nested]}) == expected(model, FLOWERS)
    typed = one("x", "FP64", FLOWERS, parameters={"content_type": "np"})
    assert asked(client, model, {"id": "1", "inputs": [typed]}) == expected(model, FLOWERS)
    request = {"id": "1", "parameters": {"content_type": "np"}, "inputs": [one("x", "FP64", FLOWERS)]}
    assert asked(client, model, request) == expected(model, FLOWERS)
    assert asked(client, model, request, "generate") == expected(model, FLOWERS)
    event = asked(client, model, request, "generate_stream")
    assert event == b"data: " + expected(model, FLOWERS) + b"\n\n"


@pytest.mark.parametrize("model", [*KINDS, "mlserver"])
def test_single_row(client: Client, model: str) -> None:
    found = asked(client, model, {"id": "1", "inputs": [one("x", "FP64", FLOWERS[:1])]})
    assert found == expected(model, FLOWERS[:1])


def test_binary_tensors(client: Client) -> None:
    for model in KINDS:
        tensor = one("foo", "FP64", FLOWERS)
        del tensor["data"]
        tensor["parameters"] = {"binary_data_size": FLOWERS.nbytes}
        head = json.dumps({"id": "1", "inputs": [tensor]}).encode()
        headers = {"inference-header-content-length": str(len(head))}
        answer = client.post(
            f"/v2/models/{model}/infer",
            content=head + np.ascontiguousarray(FLOWERS).tobytes(),
            headers=headers,
        )
        assert answer.content == expected(model, FLOWERS), answer.text


@pytest.mark.parametrize("model", ["arrays", "frames", "boosted-frames", "mlserver"])
def test_requested_outputs(client: Client, model: str) -> None:
    request = {"id": "1", "inputs": [one("x", "FP64", FLOWERS)], "outputs": [{"name": "predict_proba"}]}
    kind = "boosted" if model == "boosted-frames" else "arrays"
    proba = models.predicted(kind, FLOWERS, "predict_proba")
    assert asked(client, model, request) == response(model, predict_proba=proba)
    request["outputs"] = [{"name": "predict_proba"}, {"name": "predict"}]
    predict = models.predicted(kind, FLOWERS)
    assert asked(client, model, request) == response(model, predict_proba=proba, predict=predict)
    request["outputs"] = [{"name": "output-1"}]
    assert b'output \\"output-1\\" is not one of' in asked(client, model, request, status=400)
    request["outputs"] = [{"name": "output-0"}]  # KServe's name of the only output of its own servers
    assert asked(client, model, request) == response(model, **{"output-0": predict})


@pytest.mark.parametrize("model", ["light", "light-frames"])
def test_lightgbm_accepts_any_output_name(client: Client, model: str) -> None:
    request = {"id": "1", "inputs": [one("x", "FP64", FLOWERS)], "outputs": [{"name": "output-0"}]}
    assert asked(client, model, request) == expected(model, FLOWERS)


def framed(frame: Any) -> dict[str, Any]:
    request: InferenceRequest = PandasCodec.encode_request(frame, use_bytes=False)
    return {"id": "1", **request.model_dump(exclude_unset=True)}


@pytest.mark.parametrize("model", ["frames", "boosted-frames", "light-frames", "mlserver"])
def test_data_frame_with_content_type(client: Client, model: str) -> None:
    request = framed(models.flowers().iloc[5::50])
    assert asked(client, model, request) == expected(model, FLOWERS)
    columns = [{**column, "shape": column["shape"][:1]} for column in request["inputs"]]
    assert asked(client, model, {**request, "inputs": columns}) == expected(model, FLOWERS)


def test_lightgbm_accepts_data_frames_by_position(client: Client) -> None:
    frame = models.flowers().iloc[5::50].set_axis(["a", "b", "c", "d"], axis=1)
    for model in ("light", "light-frames"):
        assert asked(client, model, framed(frame)) == expected(model, FLOWERS)


def test_data_frame_with_strings_and_surplus_columns(client: Client) -> None:
    request = framed(models.people())
    assert asked(client, "people", request) == response("people", predict=[0, 0, 1, 1])
    more = framed(models.people()[["city", "age"]].assign(name="?"))
    assert asked(client, "people", more) == response("people", predict=[0, 0, 1, 1])


def test_string_inputs(client: Client) -> None:
    wanted = response("texts", predict=["fine", "sad"])
    texts = {"name": "any", "datatype": "BYTES", "shape": [2], "data": ["good day", "bad night"]}
    assert asked(client, "texts", {"id": "1", "inputs": [texts]}) == wanted
    typed = {**texts, "shape": [2, 1], "parameters": {"content_type": "str"}}
    request = {"id": "1", "parameters": {"content_type": "str"}, "inputs": [typed]}
    assert asked(client, "texts", request) == wanted
    flat = asked(client, "texts", {"texts": ["good day", "bad night"]}, "generate")
    assert flat == b'{"predict":["fine","sad"],"model_name":"texts","model_version":""}'
    one_text = asked(client, "texts", {"anything": "good day"}, "generate")
    assert json.loads(one_text)["predict"] == "fine"


def test_table_models_are_not_text_models(client: Client) -> None:
    listed = client.get("/v1/models")
    assert json.loads(listed.content)["data"] == []
