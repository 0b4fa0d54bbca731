"""Models of tables, served without code: what metadata say of them, and requests by the names of columns."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from inferstream import Client
from inferstream.errors import CallFailed
from tests.artefacts import models
from tests.e2e.test_runtimes import folder_of
from tests.serving import Running

FRAME = models.flowers().iloc[5::50]
ROWS = models.FLOWERS[5::50]
COLUMNS = [*FRAME.columns]
PROBABILITIES = models.classifier().predict_proba(ROWS)
SKLEARN = "inferstream.plugins.frameworks.sklearn.SKLearnModel"


def write_models(root: Path) -> Path:
    models.dumped(models.classifier(), folder_of(root, "arrays", SKLEARN))
    models.dumped(models.frame_classifier(), folder_of(root, "frames", SKLEARN))
    models.dumped(models.frame_classifier(), folder_of(root, "mlserver", "mlserver_sklearn.SKLearnModel"))
    models.dumped(models.frame_pipeline(), folder_of(root, "people", SKLEARN))
    models.dumped(models.text_classifier(), folder_of(root, "texts", SKLEARN))
    models.boosted_frames(folder_of(root, "boosted", "inferstream.plugins.frameworks.xgboost.XGBoostModel"))
    models.light_frames(folder_of(root, "light", "inferstream.plugins.frameworks.lightgbm.LightGBMModel"))
    named = folder_of(root, "named", SKLEARN)
    models.dumped(models.frame_classifier(), named)
    outputs = [
        {"name": "species", "datatype": "INT64", "shape": [-1]},
        {"name": "probabilities", "datatype": "FP64", "shape": [-1, 3]},
    ]
    settings = {"name": "named", "implementation": SKLEARN, "outputs": outputs}
    (named / "model-settings.json").write_text(json.dumps(settings))
    return root


@pytest.fixture(scope="module")
def served(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = write_models(tmp_path_factory.mktemp("tables") / "models")
    running = Running(folder, within=120, INFERSTREAM_PARALLEL_WORKERS=str(workers))
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture(params=["rest", "grpc"])
def client(request: pytest.FixtureRequest, served: Running) -> Iterator[Client]:
    with Client(served.url if request.param == "rest" else f"grpc://{served.grpc}") as opened:
        yield opened


@pytest.mark.parametrize("model", ["arrays", "frames", "mlserver", "boosted", "light"])
@pytest.mark.parametrize("name", ["predict", "input_0", "foo"])
def test_client_sends_array_with_any_name_and_datatype(client: Client, model: str, name: str) -> None:
    wanted = client.predict(model, {name: ROWS})
    assert wanted.shape == ((3, 3) if model == "light" else (3, 1))
    assert (client.predict(model, {name: ROWS.tolist()}) == wanted).all()
    whole = client.predict(model, {name: np.round(ROWS)})
    for dtype in (np.float32, np.int64, np.int32):
        assert (client.predict(model, {name: np.round(ROWS).astype(dtype)}) == whole).all()
    assert (client.predict(model, {name: np.round(ROWS).astype(int).tolist()}) == whole).all()


def test_client_sends_strings(client: Client) -> None:
    assert client.predict("texts", text=["good day", "bad night"]) == ["fine", "sad"]
    assert client.predict("texts", anything=["good day"]) == "fine"


@pytest.mark.parametrize("model", ["arrays", "frames", "mlserver", "boosted", "light"])
def test_client_sends_data_frame(client: Client, model: str) -> None:
    wanted = client.predict(model, x=ROWS)
    assert (client.predict(model, FRAME) == wanted).all()
    if model != "arrays":
        assert (client.predict(model, FRAME[COLUMNS[::-1]]) == wanted).all()
        assert (client.predict(model, FRAME.to_dict("list")) == wanted).all()
        whole = np.round(FRAME).astype(int)
        assert (client.predict(model, whole) == client.predict(model, x=np.round(ROWS))).all()


def test_client_sends_mixed_data_frame(client: Client) -> None:
    people = models.people()
    assert client.predict("people", people).ravel().tolist() == [0, 0, 1, 1]
    assert client.predict("people", people[["city", "age"]].iloc[2:]).ravel().tolist() == [1, 1]
    assert client.predict("people", age=[25, 65], city=["Oslo", "Rome"]).ravel().tolist() == [0, 1]
    assert client.predict("people", age=65, city="Rome").ravel().tolist() == [1]


def test_client_receives_missing_and_unknown_columns(client: Client) -> None:
    with pytest.raises(CallFailed, match='column "city" is missing; the model has age, city') as refused:
        client.predict("people", models.people()[["age"]])
    assert refused.value.status == 400
    with pytest.raises(CallFailed, match='column "height" is not one of the model\'s: age, city'):
        client.predict("people", models.people().assign(height=1))


def described(served: Running, model: str) -> dict[str, list[tuple]]:
    metadata = httpx.get(f"{served.url}/v2/models/{model}").json()
    return {
        key: [(tensor["name"], tensor["datatype"], tensor["shape"]) for tensor in metadata[key]]
        for key in ("inputs", "outputs")
    }


SKLEARN_OUTPUTS = [("predict", "INT64", [-1, 1]), ("predict_proba", "FP64", [-1, 3])]


def test_metadata_describes_inputs_and_outputs(served: Running) -> None:
    columns = [(name, "FP64", [-1]) for name in COLUMNS]
    assert described(served, "arrays") == {
        "inputs": [("features", "FP64", [-1, 4])],
        "outputs": SKLEARN_OUTPUTS,
    }
    assert described(served, "frames") == {"inputs": columns, "outputs": SKLEARN_OUTPUTS}
    assert described(served, "mlserver") == described(served, "frames")
    assert described(served, "people") == {
        "inputs": [("age", "FP64", [-1]), ("city", "BYTES", [-1])],
        "outputs": [("predict", "INT64", [-1, 1]), ("predict_proba", "FP64", [-1, 2])],
    }
    assert described(served, "texts") == {
        "inputs": [("text", "BYTES", [-1])],
        "outputs": [("predict", "BYTES", [-1, 1]), ("predict_proba", "FP64", [-1, 2])],
    }
    assert described(served, "boosted") == {
        "inputs": [(name, "FP32", [-1]) for name in COLUMNS],
        "outputs": [("predict", "INT64", [-1, 1]), ("predict_proba", "FP32", [-1, 3])],
    }
    assert described(served, "light") == {
        "inputs": [(name.replace(" ", "_"), "FP64", [-1]) for name in COLUMNS],
        "outputs": [("predict", "FP64", [-1, 3])],
    }


def test_metadata_lists_classes(served: Running) -> None:
    metadata = httpx.get(f"{served.url}/v2/models/texts").json()
    assert [json.loads(output["parameters"]["classes"]) for output in metadata["outputs"]] == [
        ["fine", "sad"]
    ] * 2
    assert all(
        tensor["parameters"]["described"] is True for tensor in metadata["inputs"] + metadata["outputs"]
    )


def test_settings_override_runtime_metadata(served: Running) -> None:
    assert described(served, "named") == {
        "inputs": [(name, "FP64", [-1]) for name in COLUMNS],
        "outputs": [("species", "INT64", [-1]), ("probabilities", "FP64", [-1, 3])],
    }


def test_grpc_metadata_is_equal(served: Running) -> None:
    with triton_grpc.InferenceServerClient(served.grpc) as client:
        for model in ("arrays", "frames", "people", "texts", "boosted", "light", "named"):
            metadata = client.get_model_metadata(model)
            found = {
                "inputs": [(each.name, each.datatype, [*each.shape]) for each in metadata.inputs],
                "outputs": [(each.name, each.datatype, [*each.shape]) for each in metadata.outputs],
            }
            assert found == described(served, model)


def test_openapi_example_works(served: Running) -> None:
    for model in ("arrays", "frames", "boosted", "light"):
        document = httpx.get(f"{served.url}/v2/models/{model}/docs/dataplane.json").json()
        body = document["paths"][f"/v2/models/{model}/infer"]["post"]["requestBody"]["content"]
        answer = served.infer(model, body["application/json"]["example"])
        assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("library", [triton_http, triton_grpc])
def test_triton_client_columns(served: Running, library: Any) -> None:
    address = served.grpc if library is triton_grpc else f"127.0.0.1:{served.http_port}"
    with library.InferenceServerClient(address) as client:

        def ask(model: str, columns: dict[str, np.ndarray], *outputs: str) -> Any:
            inputs = []
            for name, values in columns.items():
                datatype = "BYTES" if values.dtype == object else "FP32" if values.itemsize == 4 else "FP64"
                inputs.append(library.InferInput(name, list(values.shape), datatype))
                inputs[-1].set_data_from_numpy(values)
            wanted = [library.InferRequestedOutput(name) for name in outputs]
            return client.infer(model, inputs, outputs=wanted or None)

        columns = {name: FRAME[name].to_numpy() for name in reversed(COLUMNS)}
        found = ask("frames", columns, "predict_proba").as_numpy("predict_proba")
        assert np.allclose(found, PROBABILITIES)
        for model in ("boosted", "light"):
            narrow = {name: values.astype(np.float32).reshape(-1, 1) for name, values in columns.items()}
            assert len(ask(model, narrow).as_numpy("predict")) == 3
        cities = np.array([b"Oslo", b"Rome"], dtype=object)
        assert ask("people", {"city": cities, "age": np.array([25.0, 65.0])}).as_numpy(
            "predict"
        ).tolist() == [[0], [1]]
        with pytest.raises(
            InferenceServerException, match='column "age" is missing; the model has age, city'
        ):
            ask("people", {"city": cities})


def generated(served: Running, model: str, body: Any, status: int = 200) -> dict[str, Any]:
    answer = httpx.post(f"{served.url}/v2/models/{model}/generate", json=body, timeout=20)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.parametrize("model", ["frames", "mlserver", "boosted", "light"])
def test_generate_accepts_columns_and_rows(served: Running, model: str) -> None:
    wanted = generated(served, model, {"x": ROWS.tolist()})["predict"]
    assert generated(served, model, FRAME.to_dict("list"))["predict"] == wanted
    assert generated(served, model, FRAME.to_dict("records"))["predict"] == wanted
    one = generated(served, model, FRAME.iloc[0].to_dict())["predict"]
    assert one == wanted[0]
    assert generated(served, model, FRAME.iloc[:1].to_dict("records"))["predict"] == one


def test_generate_accepts_nested_lists_and_one_row(served: Running) -> None:
    assert generated(served, "arrays", {"anything": ROWS.tolist()})["predict"] == [0, 1, 2]
    assert generated(served, "arrays", {"features": ROWS[0].tolist()})["predict"] == 0
    refused = generated(served, "arrays", {"x": [[1, 2], [3]]}, 400)
    assert refused["error"] == 'input "x" is ragged: x[1] is a list of 1, and x[0] is a list of 2'


def test_generate_accepts_mixed_tables(served: Running) -> None:
    rows = [{"age": 25, "city": "Oslo"}, {"city": "Rome", "age": 65.5}]
    assert generated(served, "people", rows)["predict"] == [0, 1]
    assert generated(served, "people", {"age": [25, 65], "city": ["Oslo", "Rome"]})["predict"] == [0, 1]
    missing = generated(served, "people", {"age": [25]}, 400)
    assert missing["error"] == 'column "city" is missing; the model has age, city'
    unknown = generated(served, "people", {"age": [25], "city": ["Oslo"], "agee": [1]}, 400)
    assert unknown["error"] == 'column "agee" is not one of the model\'s: age, city'
    uneven = generated(served, "people", {"age": [25, 65], "city": ["Oslo"]}, 400)
    assert uneven["error"] == 'column "city" has 1 rows, and "age" has 2'
    nested = generated(served, "people", {"age": [[25, 65]], "city": ["Oslo"]}, 400)
    assert nested["error"] == 'column "age" takes one value for each row, got shape [1, 2]'


def test_declared_outputs_keep_their_names(served: Running, client: Client) -> None:
    request = {"inputs": [{"name": "x", "datatype": "FP64", "shape": [3, 4], "data": ROWS.tolist()}]}
    (output,) = served.infer("named", request).json()["outputs"]
    assert (output["name"], output["data"]) == ("species", [0, 1, 2])
    for wanted in (["probabilities", "species"], ["predict_proba", "predict"]):
        asked = {**request, "outputs": [{"name": name} for name in wanted]}
        outputs = served.infer("named", asked).json()["outputs"]
        assert [each["name"] for each in outputs] == wanted
        assert np.allclose(np.reshape(outputs[0]["data"], (3, 3)), PROBABILITIES)
    assert generated(served, "named", FRAME.to_dict("list"))["species"] == [0, 1, 2]
    assert client.predict("named", FRAME)["species"] == [0, 1, 2]
