"""Trained models, served without code: over every door, in the server and in workers."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from inferstream.codecs import PandasCodec
from inferstream.types import InferenceResponse
from tests.artefacts import graphs, models
from tests.serving import Running, tensor

FLOWERS = models.FLOWERS[5::10]
SPECIES = models.SPECIES[5::10]
"""Flowers that every model here gets right."""

Ask = Callable[..., dict[str, Any]]
"""Asks a model for outputs by name, and returns its arrays by name."""


def folder_of(
    root: Path, name: str, implementation: str, more: dict | None = None, **parameters: Any
) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    settings = {"name": name, "implementation": implementation, "parameters": parameters, **(more or {})}
    (folder / "model-settings.json").write_text(json.dumps(settings))
    return folder


def write_models(root: Path) -> Path:
    sklearn, xgboost, lightgbm = (f"mlserver_{name}" for name in ("sklearn", "xgboost", "lightgbm"))
    models.dumped(models.classifier(), folder_of(root, "classifier", f"{sklearn}.SKLearnModel"))
    uri = "./regressor.pickle"
    at = folder_of(root, "regressor", "inferstream.plugins.frameworks.sklearn.SKLearnModel", uri=uri)
    models.dumped(models.regressor(), at, uri)
    at = folder_of(root, "people", f"{sklearn}.sklearn.SKLearnModel", content_type="pd")
    models.dumped(models.frame_pipeline(), at, "model.pkl")
    extra = {"predict_fn": "transform"}
    at = folder_of(root, "scaler", f"{sklearn}.SKLearnModel", content_type="pd", extra=extra)
    models.dumped(models.frame_scaler(), at)
    for ending in ("bst", "json", "ubj"):
        at = folder_of(root, f"boosted-{ending}", f"{xgboost}.XGBoostModel")
        models.boosted("XGBClassifier", at, f"model.{ending}")
        at = folder_of(root, f"boosted-regressor-{ending}", f"{xgboost}.XGBoostModel")
        models.boosted("XGBRegressor", at, f"model.{ending}")
    models.light(folder_of(root, "light", f"{lightgbm}.LightGBMModel"))
    graphs.classifier(folder_of(root, "onnx", "inferstream.plugins.frameworks.onnx.OnnxModel"))
    batching = {"max_batch_size": 8, "max_batch_time": 0.5}
    graphs.classifier(folder_of(root, "onnx-batched", "mlserver_onnx.OnnxModel", batching))
    folder_of(root, "empty", f"{sklearn}.SKLearnModel")
    folder_of(root, "absent", f"{lightgbm}.LightGBMModel", uri="./absent.bst")
    return root


@pytest.fixture(scope="module")
def served(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = write_models(tmp_path_factory.mktemp("served") / "models")
    # Three frameworks and pandas take ten seconds of CPU to import, and a busy machine takes a multiple of it.
    running = Running(folder, within=120, INFERSTREAM_PARALLEL_WORKERS=str(workers))
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture(params=["json", "binary", "grpc"])
def ask(request: pytest.FixtureRequest, served: Running) -> Iterator[Ask]:
    """Each door that others have clients for."""
    kind = request.param
    library = triton_grpc if kind == "grpc" else triton_http
    options = {} if kind == "grpc" else {"binary_data": kind == "binary"}
    address = served.grpc if kind == "grpc" else f"127.0.0.1:{served.http_port}"
    with library.InferenceServerClient(address) as client:

        def ask(model: str, features: np.ndarray, *outputs: str) -> dict[str, Any]:
            datatype = "FP32" if features.dtype == np.float32 else "FP64"
            given = library.InferInput("features", list(features.shape), datatype)
            given.set_data_from_numpy(features, **options)
            wanted = [library.InferRequestedOutput(name, **options) for name in outputs]
            answer = client.infer(model, [given], outputs=wanted or None)
            found = answer.get_response(as_json=True) if kind == "grpc" else answer.get_response()
            return {output["name"]: answer.as_numpy(output["name"]) for output in found["outputs"]}

        yield ask


def test_classifier_returns_species_and_probabilities(ask: Ask) -> None:
    assert ask("classifier", FLOWERS)["predict"].tolist() == [[species] for species in SPECIES]
    found = ask("classifier", FLOWERS, "predict", "predict_proba")
    assert list(found) == ["predict", "predict_proba"]
    assert np.allclose(found["predict_proba"], models.classifier().predict_proba(FLOWERS))


def test_regressor_returns_numbers(ask: Ask) -> None:
    found = ask("regressor", FLOWERS, "predict")["predict"]
    assert np.allclose(found[:, 0], models.regressor().predict(FLOWERS))


@pytest.mark.parametrize("ending", ["bst", "json", "ubj"])
def test_xgboost_loads_every_format(ask: Ask, ending: str) -> None:
    found = ask(f"boosted-{ending}", FLOWERS.astype(np.float32), "predict", "predict_proba")
    assert found["predict"].tolist() == [[species] for species in SPECIES]
    assert found["predict_proba"].shape == (15, 3)
    assert ask(f"boosted-regressor-{ending}", FLOWERS)["predict"].dtype == np.float32


def test_lightgbm_returns_probabilities(ask: Ask) -> None:
    found = ask("light", FLOWERS)["predict"]
    assert found.shape == (15, 3)
    assert (found.argmax(1) == SPECIES).all()


def test_onnx_returns_outputs_with_own_shapes(ask: Ask) -> None:
    found = ask("onnx", FLOWERS.astype(np.float32))
    assert list(found) == ["species", "probabilities"]
    assert found["species"].tolist() == SPECIES.tolist()
    assert np.allclose(found["probabilities"], models.classifier().predict_proba(FLOWERS), atol=1e-4)
    assert list(ask("onnx", FLOWERS.astype(np.float32), "probabilities")) == ["probabilities"]
    with pytest.raises(InferenceServerException, match='input "features": the model takes FP32, got FP64'):
        ask("onnx", FLOWERS)


def test_onnx_by_mlserver_name_returns_predict_and_others_on_request(ask: Ask) -> None:
    features = FLOWERS.astype(np.float32)
    found = ask("onnx-batched", features)
    assert list(found) == ["predict"]
    assert found["predict"].tolist() == SPECIES.reshape(-1, 1).tolist()
    assert ask("onnx-batched", features, "probabilities")["probabilities"].shape == (15, 3)


def test_onnx_batches_requests(served: Running) -> None:
    def asked(row: int) -> int:
        request = {"inputs": [tensor("flowers", "FP32", FLOWERS[row].tolist(), [1, 4])]}
        answer = served.infer("onnx-batched", request)
        return answer.json()["outputs"][0]["data"][0]

    rows = [row % len(FLOWERS) for row in range(64)]
    with ThreadPoolExecutor(16) as callers:
        assert list(callers.map(asked, rows)) == [SPECIES[row] for row in rows]


@pytest.mark.parametrize(
    ("model", "output"),
    [
        ("onnx", "guess"),
        ("classifier", "transform"),
        ("regressor", "predict_proba"),
        ("boosted-regressor-json", "predict_proba"),
        ("boosted-json", "guess"),
    ],
)
def test_unknown_output_is_named(ask: Ask, model: str, output: str) -> None:
    with pytest.raises(
        InferenceServerException, match=r"is not one of the model's outputs: (predict|species, probabilities)"
    ) as refused:
        ask(model, FLOWERS, output)
    assert refused.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")
    assert f'output "{output}"' in refused.value.message()


def test_lightgbm_ignores_unknown_outputs(ask: Ask) -> None:
    assert list(ask("light", FLOWERS, "predict_proba")) == ["predict"]


@pytest.mark.parametrize("model", ["classifier", "boosted-json", "light", "onnx", "onnx-batched"])
def test_wrong_feature_count_is_client_error(ask: Ask, model: str) -> None:
    features = FLOWERS.astype(np.float32 if model.startswith("onnx") else FLOWERS.dtype)
    message = r'input "features": the model takes shape \[-1, 4\], got \[15, 3\]'
    with pytest.raises(InferenceServerException, match=message) as refused:
        ask(model, np.ascontiguousarray(features[:, :3]))
    assert refused.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")


def test_framework_refusal_is_client_error(ask: Ask) -> None:
    with pytest.raises(InferenceServerException, match='input "features": Input X contains NaN') as refused:
        ask("regressor", np.full((1, 4), np.nan))
    assert refused.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")


def columns(**values: list) -> list[dict]:
    return [
        tensor(name, "BYTES" if isinstance(data[0], str) else "INT64", data) for name, data in values.items()
    ]


def test_pipeline_accepts_data_frame(served: Running) -> None:
    inputs = columns(age=[25, 65], city=["Oslo", "Rome"])
    answer = served.infer("people", {"inputs": inputs})
    assert answer.json()["outputs"][0]["data"] == [0, 1], answer.text
    missing = served.infer("people", {"inputs": inputs[:1]})
    assert missing.status_code == 400
    assert "city" in missing.json()["error"]


@pytest.mark.parametrize("wanted", [{}, {"outputs": [{"name": "transform"}]}])
@pytest.mark.parametrize("action", ["infer", "infer_stream"])
def test_data_frame_returns_as_columns(served: Running, action: str, wanted: dict) -> None:
    request = {"inputs": columns(age=[20, 70], height=[150, 165]), **wanted}
    answer = served.infer("scaler", request, action)
    text = answer.text.removeprefix("data: ") if action == "infer_stream" else answer.text
    response = InferenceResponse.model_validate_json(text)
    assert PandasCodec.decode_response(response).to_dict("list") == {"age": [0, 1], "height": [0, 0.5]}


def test_data_frame_request_is_not_batched(served: Running) -> None:
    both = [{"name": "transform"}, {"name": "transform", "parameters": {"content_type": "np"}}]
    request = {"inputs": columns(age=[20, 70], height=[150, 165]), "outputs": both}
    assert served.infer("scaler", request).status_code == 400


def test_load_failure_has_reason(served: Running) -> None:
    index = httpx.post(f"{served.url}/v2/repository/index", json={}).json()
    reasons = {model["name"]: model["reason"] for model in index if model["state"] == "UNAVAILABLE"}
    assert reasons == {
        "empty": "Model empty did not load: its folder holds no model.joblib, model.pickle or model.pkl.",
        "absent": "Model absent did not load: Invalid URI specified for model absent (./absent.bst): there is no "
        "such file or folder, relative to model-settings.json",
    }


def test_large_input_is_unchanged(ask: Ask) -> None:
    many = np.tile(FLOWERS, (2000, 1))
    assert (ask("light", many)["predict"].argmax(1) == np.tile(SPECIES, 2000)).all()
