"""A model that MLflow has saved, a folder alone, through each client."""

import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

mlflow = pytest.importorskip("mlflow")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its own, of type hints
    import mlflow.sklearn

import pandas as pd
from mlflow.models import infer_signature
from sklearn.linear_model import LogisticRegression

from inferstream import Client
from tests.artefacts import models
from tests.serving import Running, eventually

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning:mlflow", "ignore:.*:FutureWarning:mlflow")

FLOWERS, SPECIES = models.FLOWERS[5::10], models.SPECIES[5::10].tolist()
NAMES = ["sepal length", "sepal width", "petal length", "petal width"]
RECOGNISED = (
    "iris has no settings: MLmodel says that inferstream.plugins.frameworks.mlflow.MLflowModel reads it"
)


def test_a_classifier(tmp_path: Path, workers: int) -> None:
    frame = pd.DataFrame(models.FLOWERS, columns=NAMES)
    classifier = LogisticRegression(max_iter=500).fit(frame, models.SPECIES)
    mlflow.sklearn.save_model(
        classifier,
        str(tmp_path / "models" / "iris"),
        signature=infer_signature(frame, classifier.predict(frame)),
        serialization_format="cloudpickle",
        pip_requirements=["mlflow"],
    )
    batching = {"INFERSTREAM_MODEL_MAX_BATCH_SIZE": "8", "INFERSTREAM_MODEL_MAX_BATCH_TIME": "0.5"}
    running = Running(
        tmp_path / "models",
        target="models/iris",
        within=120,
        INFERSTREAM_PARALLEL_WORKERS=str(workers),
        **batching,
    )
    wanted = classifier.predict(pd.DataFrame(FLOWERS, columns=NAMES)).tolist()
    try:
        eventually(lambda: RECOGNISED in running.text())
        for library, address in (
            (triton_grpc, running.grpc),
            (triton_http, f"127.0.0.1:{running.http_port}"),
        ):
            with library.InferenceServerClient(address) as client:
                given = library.InferInput("rows", [15, 4], "FP32")
                given.set_data_from_numpy(FLOWERS.astype(np.float32))
                asked = [library.InferRequestedOutput("output-0")]
                assert (
                    client.infer("iris", [given], outputs=asked).as_numpy("output-0")[:, 0].tolist() == wanted
                )
                given = library.InferInput("rows", [15, 3], "FP64")
                given.set_data_from_numpy(FLOWERS[:, :3].copy())
                with pytest.raises(InferenceServerException, match=r"takes shape \[-1, 4\], got \[15, 3\]"):
                    client.infer("iris", [given])
                columns = [library.InferInput(name, [15], "BYTES") for name in NAMES]
                for column in columns:
                    column.set_data_from_numpy(np.array(["x"] * 15, dtype=object))
                with pytest.raises(
                    InferenceServerException, match=r'column "sepal length": .* FP64, got BYTES'
                ):
                    client.infer("iris", columns)
        for url in (running.url, f"grpc://{running.grpc}"):
            with Client(url) as client:
                table = pd.DataFrame(FLOWERS, columns=NAMES)
                assert np.ravel(client.predict("iris", table)).tolist() == wanted
        row = dict(zip(NAMES, FLOWERS[0].tolist(), strict=True))
        for path in ("generate", "generate_stream"):
            answer = httpx.post(f"{running.url}/v2/models/iris/{path}", json=row)
            assert answer.status_code == 200, answer.text
            assert f'"output-0":{wanted[0]}' in answer.text
        table = pd.DataFrame(FLOWERS, columns=NAMES)
        for body, media_type in (
            ({"instances": [row]}, "application/json"),
            ({"dataframe_split": table.to_dict(orient="split")}, "application/json; charset=utf-8"),
            ({"dataframe_records": [row], "params": {}}, "application/json"),
            ({"inputs": table.to_dict(orient="list")}, "application/json"),
            (table.to_csv(index=False), "text/csv"),
        ):
            answer = httpx.post(
                f"{running.url}/invocations",
                content=body if isinstance(body, str) else json.dumps(body),
                headers={"content-type": media_type},
            )
            assert answer.status_code == 200, answer.text
            assert answer.headers["content-type"] == "application/json"
            found = answer.json()["predictions"]
            assert found == wanted[: len(found)]
        for body, status in (({"dataframe_records": [{}]}, 400), ({"a": 1}, 400)):
            answer = httpx.post(f"{running.url}/invocations", json=body)
            assert answer.status_code == status
            assert answer.json().keys() == {"error_code", "message"}
        version = httpx.get(f"{running.url}/version")
        assert (version.status_code, version.text) == (200, mlflow.__version__)
        assert version.headers["content-type"] == "application/json"
    finally:
        assert running.stop() == 0, running.text()


ECHO = """
import mlflow


class Echo(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input, params=None):
        return {"rows": [repr(row) for row in model_input.to_dict("records")], "count": len(model_input)}


mlflow.models.set_model(Echo())
"""


def test_list_and_object_columns(tmp_path: Path, workers: int) -> None:
    chat = [{"role": "user", "content": "hi"}]
    (tmp_path / "echo.py").write_text(ECHO)
    mlflow.pyfunc.save_model(
        str(tmp_path / "m"),
        python_model=str(tmp_path / "echo.py"),
        signature=infer_signature({"messages": chat, "t": 0.5}),
        pip_requirements=["mlflow"],
    )
    row = {"messages": chat, "t": 0.5}
    running = Running(tmp_path / "m", within=120, INFERSTREAM_PARALLEL_WORKERS=str(workers))
    try:
        for document, count in (
            ({"inputs": row}, 1),
            ({"inputs": [row, row]}, 2),
            ({"dataframe_records": [row, row]}, 2),
            ({"dataframe_split": {"columns": ["messages", "t"], "data": [[chat, 0.5]]}}, 1),
        ):
            answer = httpx.post(f"{running.url}/invocations", json=document, timeout=20)
            assert answer.status_code == 200, answer.text
            found = answer.json()["predictions"]
            assert found["count"] == count
            # MLflow itself converts lists of some forms to arrays.
            plain = [text.replace("array(", "").replace(", dtype=object)", "") for text in found["rows"]]
            assert plain == [repr(row)] * count
        # At /invocations, MLflow refuses instances with lists, which it converts to arrays of two dimensions.
        answer = httpx.post(f"{running.url}/v1/models/m:predict", json={"instances": [row]}, timeout=20)
        assert answer.json() == {"predictions": [{"rows": repr(row), "count": 1}]}
        flat = httpx.post(f"{running.url}/v2/models/m/generate", json=row, timeout=20)
        assert flat.json()["rows"] == repr(row), flat.text
    finally:
        running.stop()


SAVE = """
import sys
from pathlib import Path
import mlflow.pyfunc
from mlflow.models import ModelSignature
from mlflow.types.schema import ColSpec, Schema
who, kind, folder, code = *sys.argv[1:4], Path(sys.argv[4])
code.mkdir()
(code / "helper.py").write_text(
    f"WHO = '{who}'\\n\\n\\ndef get():\\n    from later import WHO as late\\n    return WHO + late\\n\\n\\n"
    "class Loaded:\\n    def predict(self, rows):\\n        return [get()] * len(rows)\\n\\n\\n"
    "def _load_pyfunc(path):\\n    return Loaded()\\n"
)
(code / "later.py").write_text(f"WHO = '{who}'\\n")
sys.path.insert(0, str(code))
import helper

class Pickled(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input, params=None):
        from later import WHO
        return [helper.WHO + WHO] * len(model_input)

how = {"loader_module": "helper"} if kind == "loader" else {"python_model": Pickled()}
signature = ModelSignature(inputs=Schema([ColSpec("long", "x")]), outputs=Schema([ColSpec("string")]))
mlflow.pyfunc.save_model(folder, code_paths=[str(code / "helper.py"), str(code / "later.py")], signature=signature, pip_requirements=["mlflow"], **how)
"""


@pytest.mark.parametrize("kind", ["pickle", "loader"])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_models_have_their_own_code(tmp_path: Path, workers: int, kind: str, elsewhere: bool) -> None:
    """`code_paths` of two models have modules of one name."""
    for who in "ab":
        folder = tmp_path / ("artefacts" if elsewhere else "models") / who
        command = [sys.executable, "-c", SAVE, who, kind, str(folder), str(tmp_path / f"code-{who}")]
        subprocess.run(command, check=True, capture_output=True, timeout=100)
        settings = tmp_path / "models" / who / "model-settings.json"
        settings.parent.mkdir(parents=True, exist_ok=True)
        runtime = "mlserver_mlflow.MLflowRuntime"
        settings.write_text(json.dumps({"implementation": runtime, "parameters": {"uri": str(folder)}}))
        shutil.rmtree(tmp_path / f"code-{who}")
    running = Running(tmp_path / "models", within=120, INFERSTREAM_PARALLEL_WORKERS=str(workers))
    try:
        rows = {"inputs": [{"name": "x", "datatype": "INT64", "shape": [1], "data": [1]}]}
        found = {who: running.infer(who, rows).json()["outputs"][0]["data"] for who in "ab"}
        assert found == {"a": ["aa"], "b": ["bb"]}
    finally:
        assert running.stop() == 0, running.text()
