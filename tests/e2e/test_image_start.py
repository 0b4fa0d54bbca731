"""The start of the repository's image, run where no container engine is needed.

The command and the variables of the Dockerfile run in namespaces: with a read-only root, as the user ID that OpenShift
would choose, and without capabilities.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import joblib
import pytest
from dockerfile_parse import DockerfileParser
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from inferstream.protos.dataplane_pb2 import ModelReadyRequest, RepositoryModelLoadRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import eventually

DOCKERFILE = DockerfileParser(str(Path(__file__).parents[2] / "Dockerfile"))
USER = 1000650000
READ_ONLY = 'mount -o remount,bind,ro / && exec unshare --user --map-user="$0" --map-group=0 "$@"'
CONTAINED = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", READ_ONLY, str(USER)]
SKLEARN = "mlserver_sklearn.SKLearnModel"
ROW = {"inputs": [{"name": "x", "datatype": "FP64", "shape": [1, 4], "data": [5.1, 3.5, 1.4, 0.2]}]}


class Container:
    def __init__(self, output: Path, **variables: str) -> None:
        assert DOCKERFILE.cmd == '["server", "start"]'
        scripts = str(Path(sys.executable).parent)
        image = {**DOCKERFILE.envs, "PATH": f"{scripts}:/usr/bin:/bin", "PYTHONPATH": os.getcwd()}
        ports = {f"MLSERVER_{name}_PORT": "0" for name in ("HTTP", "GRPC", "METRICS")}
        self.output = output
        with output.open("w") as opened:
            self.process = subprocess.Popen(
                [*CONTAINED, f"{scripts}/python", "-m", "inferstream", "start"],
                env={**image, **ports, **variables},
                cwd="/",
                stdout=opened,
                stderr=opened,
            )
        self.url = f"http://127.0.0.1:{self.find_port(r'^REST +http://')}"
        self.grpc = f"127.0.0.1:{self.find_port('^gRPC +')}"

    def find_port(self, start: str) -> str:
        found = eventually(lambda: re.search(rf"{start}[\d.]+:(\d+)", self.output.read_text(), re.M), 30)
        return str(found[1])  # type: ignore[index]

    def status(self) -> str:
        return Path(f"/proc/{self.process.pid}/status").read_text()


@pytest.fixture
def contain(tmp_path: Path) -> Iterator[type[Container]]:
    if subprocess.run([*CONTAINED, "true"], capture_output=True, check=False).returncode:
        pytest.skip("user namespaces are not allowed here")
    started: list[Container] = []

    def start(**variables: str) -> Container:
        started.append(Container(tmp_path / "output", **variables))
        return started[-1]

    yield start  # type: ignore[misc]
    for container in started:
        container.process.terminate()
        assert container.process.wait(20) == 0, container.output.read_text()


@pytest.fixture(scope="module")
def iris(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("iris")
    joblib.dump(LogisticRegression(max_iter=500).fit(*load_iris(return_X_y=True)), folder / "model.joblib")
    return folder


def test_variables_of_kserve_and_open_data_hub(contain: type[Container], iris: Path) -> None:
    container = contain(
        MLSERVER_MODEL_IMPLEMENTATION=SKLEARN,
        MLSERVER_MODEL_NAME="isvc",
        MLSERVER_MODEL_URI=str(iris),
        MLSERVER_MODELS_DIR=str(iris),
    )
    assert httpx.get(f"{container.url}/v2/models/isvc/ready").status_code == 200
    answer = httpx.post(f"{container.url}/v2/models/isvc/infer", json=ROW, timeout=20)
    assert answer.json()["outputs"][0]["data"] == [0]
    with grpc.insecure_channel(container.grpc) as channel:
        assert GRPCInferenceServiceStub(channel).ModelReady(ModelReadyRequest(name="isvc"), timeout=10).ready
    status = container.status()
    assert re.search(r"^CapEff:\s+0+$", status, re.M), "no capabilities"


def test_variables_of_seldon(contain: type[Container], iris: Path, tmp_path: Path) -> None:
    models = tmp_path / "agent"
    container = contain(
        MLSERVER_MODELS_DIR=str(models),
        MLSERVER_LOAD_MODELS_AT_STARTUP="false",
        MLSERVER_PARALLEL_WORKERS="0",
        MLSERVER_TRACING_SERVER="127.0.0.1:4317",
    )
    (models / "iris").mkdir(parents=True)
    (models / "iris" / "model-settings.json").write_text(
        f'{{"name": "iris", "implementation": "{SKLEARN}", "parameters": {{"uri": "{iris}"}}}}'
    )
    with grpc.insecure_channel(container.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        stub.RepositoryModelLoad(RepositoryModelLoadRequest(model_name="iris"), timeout=30)
    answer = httpx.post(f"{container.url}/v2/models/iris/infer", json=ROW, timeout=20)
    assert answer.json()["outputs"][0]["data"] == [0]


def test_image_has_what_clusters_need() -> None:
    text = DOCKERFILE.content
    assert DOCKERFILE.envs["MLSERVER_MODELS_DIR"] == "/mnt/models"
    assert "ENTRYPOINT" not in text, "`args` of a pod may be a command"
    assert "--no-install-recommends curl libgomp1" in text
    assert "[tracing${EXTRAS:+,$EXTRAS}]" in text
    assert "server alias mlserver" in text
    assert "--uid 1000 --gid 0" in text
    assert "chown 1000:0 /home/server && chmod 775 /home/server" in text
    assert DOCKERFILE.labels["inferstream.sbom"] in text.partition("FROM ${BASE}\n")[0]
