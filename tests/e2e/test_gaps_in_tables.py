"""Missing values of tables in every form that clients send, and matrices as rows, over REST and gRPC."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import joblib
import numpy as np
import pytest

from inferstream import Client
from inferstream.errors import CallFailed
from tests.serving import Running

pd = pytest.importorskip("pandas")
xgboost = pytest.importorskip("xgboost")

ROW = {"age": 33.0, "income": 50_000.0, "city": "Oslo", "active": True}
TYPES = {"age": "FP64", "income": "FP64", "city": "BYTES", "active": "BOOL"}
CITIES = ["Lima", "Oslo", "Rome"]
GAPS = [{"age": None}, {"city": None}, {"age": None, "city": None}]
TWO = [ROW, ROW | {"age": 71.0, "city": "Rome"}]

FUNCTIONS = """
import pandas as pd
from inferstream import App

app = App()


@app.model
def count(people: pd.DataFrame) -> int:
    print("RAN", flush=True)
    return int(people["age"].count())
"""


def people() -> Any:
    random = np.random.default_rng(0)
    size = 200
    frame = pd.DataFrame(
        {
            "age": random.integers(18, 90, size).astype(float),
            "income": random.normal(50_000, 15_000, size),
            "city": random.choice(CITIES, size),
            "active": random.choice([True, False], size),
        }
    )
    label = ((frame.age > 50) ^ (frame.city == "Oslo")).astype(int)
    frame.loc[random.random(size) < 0.1, "age"] = np.nan
    frame.loc[random.random(size) < 0.1, "city"] = None
    return frame, label


def pipeline() -> Any:
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    texts = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    columns = ColumnTransformer(
        [("n", numbers, ["age", "income"]), ("t", texts, ["city"]), ("b", "passthrough", ["active"])]
    )
    return make_pipeline(columns, LogisticRegression()).fit(*people())


def booster() -> Any:
    frame, label = people()
    frame = frame.assign(city=pd.Categorical(frame.city, categories=CITIES))
    return xgboost.XGBClassifier(n_estimators=5, n_jobs=1, enable_categorical=True).fit(frame, label)


MODELS = {"churn": pipeline(), "grown": booster()}


def predicted(model: str, rows: list[dict[str, Any]], method: str = "predict") -> list[Any]:
    """What the model itself makes of these rows."""
    frame = pd.DataFrame(rows, columns=[*ROW])
    if model == "grown":
        frame = frame.assign(age=frame.age.astype(float), city=pd.Categorical(frame.city, categories=CITIES))
    answer: list[Any] = getattr(MODELS[model], method)(frame).tolist()
    return answer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("tables") / "models"
    runtimes = {"churn": "sklearn.SKLearnModel", "grown": "xgboost.XGBoostModel"}
    for model, runtime in runtimes.items():
        for name, extra in ((model, {}), (f"{model}-shares", {"predict_fn": "predict_proba"})):
            folder = root / name
            folder.mkdir(parents=True)
            settings = {
                "name": name,
                "implementation": f"inferstream.runtimes.{runtime}",
                "parameters": {"extra": extra},
            }
            (folder / "model-settings.json").write_text(json.dumps(settings))
            if model == "churn":
                joblib.dump(MODELS[model], folder / "model.joblib")
            else:
                MODELS[model].save_model(folder / "model.ubj")
    running = Running(root, within=60)
    yield running
    assert running.stop() == 0, running.text()


def tensors(row: dict[str, Any]) -> dict[str, Any]:
    inputs = [{"name": name, "shape": [1], "datatype": TYPES[name], "data": [row[name]]} for name in row]
    return {"inputs": inputs}


FORMS = {
    "a row": ("generate", lambda row: row),
    "an event": ("generate_stream", lambda row: row),
    "a list of rows": ("generate", lambda row: [row]),
    "columns": ("generate", lambda row: {name: [value] for name, value in row.items()}),
    "tensors": ("infer", tensors),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("gap", GAPS, ids=lambda gap: "+".join(gap))
@pytest.mark.parametrize("model", MODELS)
def test_null_is_a_missing_value(server: Running, model: str, gap: dict[str, None], form: str) -> None:
    action, written = FORMS[form]
    answer = httpx.post(f"{server.url}/v2/models/{model}/{action}", json=written(ROW | gap))
    assert answer.status_code == 200, answer.text
    text = answer.text.removeprefix("data: ")
    said = json.loads(text)
    found = said["outputs"][0]["data"] if action == "infer" else [said["predict"]]
    assert found == predicted(model, [ROW | gap])


@pytest.mark.parametrize("model", MODELS)
def test_missing_column_is_named(server: Running, model: str) -> None:
    row = {name: value for name, value in ROW.items() if name != "age"}
    answer = httpx.post(f"{server.url}/v2/models/{model}/generate", json=row)
    assert answer.status_code == 400
    assert '"age" is missing' in answer.json()["error"]


ROWS = [ROW, ROW | {"age": None, "city": None}]
NAN = float("nan")
ASKED: dict[str, Any] = {
    "columns with None": {name: [row[name] for row in ROWS] for name in ROW},
    "columns with NaN": {name: [NAN if row[name] is None else row[name] for row in ROWS] for name in ROW},
    "rows": ROWS,
    "rows of mappings in a tuple": tuple(ROWS),
    "a data frame": pd.DataFrame(ROWS),
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("over", ["http", "grpc"])
@pytest.mark.parametrize("model", MODELS)
def test_the_client_sends_missing_values(server: Running, model: str, over: str, asked: str) -> None:
    with Client(server.url if over == "http" else f"grpc://{server.grpc}") as client:
        answer = np.ravel(client.predict(model, ASKED[asked])).tolist()
    assert answer == predicted(model, ROWS)


@pytest.mark.parametrize("gap", GAPS, ids=lambda gap: "+".join(gap))
@pytest.mark.parametrize("framed", [True, False])
@pytest.mark.parametrize("model", MODELS)
def test_the_client_sends_a_single_row_with_gaps(
    server: Running, model: str, framed: bool, gap: dict[str, None]
) -> None:
    row = ROW | gap
    with Client(server.url) as client:
        answer = np.ravel(client.predict(model, pd.DataFrame([row]) if framed else row)).tolist()
    assert answer == predicted(model, [row])


def test_neither_mapping_nor_rows_is_type_error(server: Running) -> None:
    with Client(server.url) as client, pytest.raises(TypeError, match="no mapping and no rows"):
        client.predict("churn", [1, 2])  # type: ignore[list-item]


@pytest.mark.parametrize("action", ["generate", "generate_stream"])
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("model", MODELS)
def test_matrix_is_list_per_row(server: Running, model: str, rows: int, action: str) -> None:
    answer = httpx.post(f"{server.url}/v2/models/{model}-shares/{action}", json=TWO[:rows])
    found = json.loads(answer.text.removeprefix("data: "))["predict_proba"]
    expected = predicted(model, TWO[:rows], "predict_proba")
    np.testing.assert_allclose(found, expected if rows > 1 else expected[0], rtol=1e-5)


WRONG: dict[str, Any] = {
    "numbers": [1, 2],
    "lists": [[1, 2], [3, 4]],
    "texts": ["a", "b"],
    "a number among rows": [{"age": 1}, 2],
    "no column": {},
    "a number": 3,
}


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("frames") / "app"
    folder.mkdir()
    (folder / "app.py").write_text(FUNCTIONS)
    running = Running(folder, target=str(folder / "app.py"))
    yield running
    assert running.stop() == 0, running.text()


@pytest.mark.parametrize("wrong", WRONG)
def test_invalid_data_frame_is_client_error(functions: Running, wrong: str) -> None:
    url, given = f"{functions.url}/v2/models/count", WRONG[wrong]
    tensor = {"name": "people", "shape": [1], "datatype": "BYTES", "data": [json.dumps(given)]}
    framed = tensor | {"parameters": {"content_type": "pd_json"}}
    answers = [
        httpx.post(f"{url}/generate", json={"people": given}),
        httpx.post(f"{url}/infer", json={"inputs": [tensor]}),
        httpx.post(f"{url}/infer", json={"inputs": [framed]}),
    ]
    for answer in answers:
        assert answer.status_code == 400, answer.text
        assert '"people"' in answer.json()["error"]
    assert "RAN" not in functions.text()


BOTH = ["predict", "predict_proba"]
COLUMNS = {name: [row[name] for row in TWO] for name in ROW}


@pytest.mark.parametrize("action", ["generate", "generate_stream"])
@pytest.mark.parametrize("model", MODELS)
def test_flat_json_selects_outputs(server: Running, model: str, action: str) -> None:
    url = f"{server.url}/v2/models/{model}/{action}"
    answer = httpx.post(url, json=COLUMNS | {"parameters": {"outputs": BOTH}})
    found = json.loads(answer.text.removeprefix("data: "))
    assert found["predict"] == predicted(model, TWO)
    np.testing.assert_allclose(found["predict_proba"], predicted(model, TWO, "predict_proba"), rtol=1e-5)
    assert "nonsense" in httpx.post(url, json=COLUMNS | {"parameters": {"outputs": "predict,nonsense"}}).text


@pytest.mark.parametrize("over", ["http", "grpc"])
@pytest.mark.parametrize("model", MODELS)
def test_client_selects_outputs(server: Running, model: str, over: str) -> None:
    with Client(server.url if over == "http" else f"grpc://{server.grpc}") as client:
        both = client.predict(model, TWO, outputs=BOTH)
        assert sorted(both) == BOTH
        np.testing.assert_allclose(both["predict_proba"], predicted(model, TWO, "predict_proba"), rtol=1e-5)
        with pytest.raises(CallFailed, match="nonsense"):
            client.predict(model, TWO, outputs=["nonsense"])
