"""MLServer's own runtimes, as they were published, run on our `import mlserver`."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from inferstream.codecs import PandasCodec
from inferstream.types import InferenceResponse
from tests.artefacts import models
from tests.serving import Running, tensor

RUNTIMES = Path(sys.prefix) / "mlserver-runtimes"
FLOWERS = models.FLOWERS[5::10]
SPECIES = [[species] for species in models.SPECIES[5::10]]


def folder_of(root: Path, name: str, implementation: str, **settings) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    settings |= {"name": name, "implementation": implementation}
    (folder / "model-settings.json").write_text(json.dumps(settings))
    return folder


def write_models(root: Path) -> Path:
    sklearn = "mlserver_sklearn.SKLearnModel"
    models.dumped(models.classifier(), folder_of(root, "classifier", sklearn))
    models.dumped(models.regressor(), folder_of(root, "regressor", sklearn))
    columns = [{"name": name, "datatype": "FP64", "shape": [-1, 1]} for name in ("age", "height")]
    parameters = {"content_type": "pd", "extra": {"predict_fn": "transform"}}
    at = folder_of(root, "scaler", sklearn, parameters=parameters, outputs=columns)
    models.dumped(models.frame_scaler(), at)
    at = folder_of(root, "boosted", "mlserver_xgboost.XGBoostModel")
    models.boosted("XGBClassifier", at, "model.json")
    models.light(folder_of(root, "light", "mlserver_lightgbm.LightGBMModel"))
    return root


@pytest.fixture(scope="module")
def served(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    # Installed without what they depend on, which is MLServer; so no extra of ours can name them.
    assert (RUNTIMES / "mlserver_sklearn").is_dir(), f"not in {RUNTIMES}: `make test` installs them"
    folder = write_models(tmp_path_factory.mktemp("foreign") / "models")
    running = Running(folder, within=120, PYTHONPATH=str(RUNTIMES), INFERSTREAM_PARALLEL_WORKERS=str(workers))
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture(params=["json", "binary", "grpc"])
def ask(request: pytest.FixtureRequest, served: Running) -> Iterator[object]:
    """Asks a model for outputs by name, and returns its arrays by name."""
    kind = request.param
    library = triton_grpc if kind == "grpc" else triton_http
    options = {} if kind == "grpc" else {"binary_data": kind == "binary"}
    address = served.grpc if kind == "grpc" else f"127.0.0.1:{served.http_port}"
    with library.InferenceServerClient(address) as client:

        def ask(model: str, *outputs: str) -> dict[str, np.ndarray]:
            given = library.InferInput("features", list(FLOWERS.shape), "FP64")
            given.set_data_from_numpy(FLOWERS, **options)
            wanted = [library.InferRequestedOutput(name, **options) for name in outputs]
            answer = client.infer(model, [given], outputs=wanted or None)
            found = answer.get_response(as_json=True) if kind == "grpc" else answer.get_response()
            return {output["name"]: answer.as_numpy(output["name"]) for output in found["outputs"]}

        yield ask


@pytest.mark.parametrize("model", ["classifier", "boosted"])
def test_outputs_are_methods_by_name(ask, model: str) -> None:
    assert ask(model)["predict"].tolist() == SPECIES
    assert list(ask(model, "predict_proba")) == ["predict_proba"]
    both = ask(model, "predict_proba", "predict")
    assert list(both) == ["predict_proba", "predict"]
    assert both["predict_proba"].shape == (15, 3)


def test_lightgbm_returns_probabilities(ask) -> None:
    for asked in ((), ("predict",)):
        assert ask("light", *asked)["predict"].shape == (15, 3)


@pytest.mark.parametrize(
    ("model", "output", "refusal"),
    [
        ("classifier", "guess", r"SKLearnModel only supports 'predict'.*\(guess was received\)"),
        ("regressor", "predict_proba", "LinearRegression.*do not support 'predict_proba"),
        ("boosted", "transform", "XGBoostModel only supports"),
    ],
)
def test_runtime_refusals_keep_their_message(ask, model: str, output: str, refusal: str) -> None:
    with pytest.raises(InferenceServerException, match=refusal) as refused:
        ask(model, output)
    assert refused.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")


@pytest.mark.parametrize("wanted", [{}, {"outputs": [{"name": "transform"}]}], ids=["default", "named"])
@pytest.mark.parametrize("action", ["infer", "infer_stream"])
def test_data_frame_returns_as_columns(served: Running, action: str, wanted: dict) -> None:
    inputs = [tensor("age", "INT64", [20, 70]), tensor("height", "INT64", [150, 165])]
    answer = served.infer("scaler", {"inputs": inputs, **wanted}, action)
    text = answer.text.removeprefix("data: ") if action == "infer_stream" else answer.text
    response = InferenceResponse.model_validate_json(text)
    assert PandasCodec.decode_response(response).to_dict("list") == {"age": [0, 1], "height": [0, 0.5]}
