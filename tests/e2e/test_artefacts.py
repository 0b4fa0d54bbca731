"""An artefact alone, or in a folder without settings, is served by its form."""

import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pytest

from inferstream import Client
from tests.artefacts import graphs, models
from tests.serving import Running, eventually, tensor

FLOWERS = models.FLOWERS[5::10].astype(np.float32)
SPECIES = models.SPECIES[5::10].tolist()


@pytest.mark.parametrize(
    ("target", "flags", "name"),
    [
        ("models/iris.onnx", (), "iris"),
        ("models/iris.onnx", ("--model-name", "flowers"), "flowers"),
        ("models", (), "models"),
    ],
)
def test_an_onnx_file(tmp_path: Path, target: str, flags: tuple[str, ...], name: str) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    graphs.classifier(folder, "iris.onnx")
    if target != "models":
        models.dumped(models.regressor(), folder, "another.joblib")
    running = Running(folder, *flags, target=target, within=120)
    try:
        eventually(
            lambda: (
                f"{name} has no settings: iris.onnx says that inferstream.plugins.frameworks.onnx.OnnxModel reads it"
                in running.text()
            )
        )
        assert [each["name"] for each in httpx.post(f"{running.url}/v2/repository/index").json()] == [name]
        inputs = httpx.get(f"{running.url}/v2/models/{name}").json()["inputs"]
        assert inputs == [{"name": "flowers", "datatype": "FP32", "shape": [-1, 4]}]
        for url in (running.url, f"grpc://{running.grpc}"):
            with Client(url) as client:
                assert [*client.predict(name, flowers=FLOWERS)["species"]] == SPECIES
        instances = {"instances": FLOWERS.tolist()}
        v1 = httpx.post(f"{running.url}/v1/models/{name}:predict", json=instances).json()["predictions"]
        assert [each["species"] for each in v1] == SPECIES
        flat = httpx.post(f"{running.url}/v2/models/{name}/generate", json={"flowers": FLOWERS.tolist()})
        assert flat.json()["species"] == SPECIES
        wrong = httpx.post(f"{running.url}/v2/models/{name}/generate", json={"flowers": [[1, 2, 3]]})
        assert wrong.status_code == 400
        assert 'input "flowers": the model takes shape [-1, 4], got [1, 3]' in wrong.json()["error"]
    finally:
        assert running.stop() == 0, running.text()


def test_a_function_from_joblib(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "doubling.py").write_text("def doubled(values):\n    return values * 2\n")
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import doubling, joblib; joblib.dump"
    subprocess.run(
        [sys.executable, "-c", f"{code}(doubling.doubled, {str(folder / 'twice.joblib')!r})"], check=True
    )
    running = Running(folder, target="models/twice.joblib", within=120)
    try:
        answer = running.infer("twice", {"inputs": [tensor("x", "FP32", [1, 2.5], [1, 2])]})
        assert answer.json()["outputs"][0]["data"] == [2, 5], answer.text
    finally:
        assert running.stop() == 0, running.text()
