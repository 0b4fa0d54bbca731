"""The default command of an image, run where no Docker is needed: with its variables, at other paths."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from dockerfile_parse import DockerfileParser

from inferstream.plugins.tools.image.wheel import NAME as WHEEL
from tests.serving import SERVER, eventually, text

CODE = """
from inferstream import MLModel
from inferstream.codecs import StringCodec
from inferstream.types import InferenceResponse

class Model(MLModel):
    async def predict(self, payload):
        said = StringCodec.encode_output("said", [self.settings.parameters.uri])
        return InferenceResponse(model_name=self.name, outputs=[said])
"""


class Container:
    """What an image would hold, without the image."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.home, self.mounted, self.output = root / "opt/mlserver", root / "mnt/models", root / "output"
        assert subprocess.run([*SERVER, "dockerfile", str(folder)], check=False).returncode == 0
        self.file = DockerfileParser(str(folder))
        shutil.copytree(folder, self.home)
        self.mounted.mkdir(parents=True)
        for instruction in self.file.structure:
            if instruction["instruction"] == "RUN" and instruction["value"].startswith("rm "):
                subprocess.run(instruction["value"], shell=True, cwd=self.home, check=True)
        self.process: subprocess.Popen[bytes] | None = None

    def below(self, text: str) -> str:
        return text.replace("/opt/mlserver", str(self.home)).replace("/mnt/models", str(self.mounted))

    def start(self, **variables: str) -> str:
        """Run the command; the URL it serves at."""
        moved = {name: self.below(value) for name, value in self.file.envs.items()}
        path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        ports = {f"MLSERVER_{name}_PORT": "0" for name in ("HTTP", "GRPC", "METRICS")}
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                ["/bin/sh", "-c", self.below(self.file.cmd)],
                cwd=self.home,
                env={**moved, **path, **ports, **variables},
                stdout=output,
                stderr=output,
            )
        found = eventually(lambda: re.search(r"^REST +http://\S+:(\d+)/", self.output.read_text(), re.M), 30)
        return f"http://127.0.0.1:{found[1]}"

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        assert self.process.wait(15) == 0, "the server is the process itself, and hears the signal"


@pytest.fixture
def contain(tmp_path: Path) -> Iterator[Callable[[Path], Container]]:
    made: list[Container] = []

    def make(folder: Path) -> Container:
        made.append(Container(folder, tmp_path / "root"))
        return made[-1]

    yield make
    for container in made:
        container.stop()


def write(folder: Path, **settings: object) -> Path:
    folder.mkdir(parents=True)
    (folder / "code_of_model.py").write_text(CODE)
    (folder / "model-settings.json").write_text(
        json.dumps({"implementation": "code_of_model.Model", **settings})
    )
    return folder


def said(url: str, model: str) -> str:
    return httpx.post(f"{url}/v2/models/{quote(model)}/infer", json=text(), timeout=20).json()["outputs"][0][
        "data"
    ][0]


def test_built_in_model_serves_under_orchestrator_settings(
    tmp_path: Path, contain: Callable[[Path], Container]
) -> None:
    folder = write(tmp_path / "mine", parameters={"extra": {"a": 1}})
    (folder / "settings.json").write_text('{"http_port": 1, "debug": false}')
    container = contain(folder)
    url = container.start(MLSERVER_MODEL_NAME="theirs", MLSERVER_MODEL_URI="/mnt/elsewhere")
    assert said(url, "theirs") == "/mnt/elsewhere"
    refused = httpx.post(f"{url}/v2/repository/index", json={})
    assert (refused.status_code, "is closed" in refused.text) == (403, True), "also from the same pod"


def test_models_of_an_agent_arrive_later(tmp_path: Path, contain: Callable[[Path], Container]) -> None:
    """The agent of Seldon Core 2 writes models into a folder that is empty at first."""
    folder = write(tmp_path / "mine")
    container = contain(folder)
    url = container.start(
        MLSERVER_MODELS_DIR=str(tmp_path / "agent"),
        MLSERVER_LOAD_MODELS_AT_STARTUP="false",
        MLSERVER_ALLOW_OPEN_REPOSITORY="local",
    )
    write(tmp_path / "agent" / "theirs", name="theirs")
    assert httpx.post(f"{url}/v2/repository/models/theirs/load").status_code == 200
    assert said(url, "theirs") == str(tmp_path / "agent" / "theirs")


def test_several_built_in_models_are_served(tmp_path: Path, contain: Callable[[Path], Container]) -> None:
    write(tmp_path / "models" / "a")
    write(tmp_path / "models" / "b", name="second")
    container = contain(tmp_path / "models")
    url = container.start()
    assert said(url, "a") == str(container.home / "a")
    assert said(url, "second") == str(container.home / "b")


def test_mounted_models_use_built_in_code(tmp_path: Path, contain: Callable[[Path], Container]) -> None:
    container = contain(write(tmp_path / "mine"))
    (container.mounted / "theirs").mkdir()
    (container.mounted / "theirs" / "model-settings.json").write_text("{}")
    assert said(container.start(), "theirs") == str(container.mounted / "theirs")


def test_single_model_is_named_after_folder(tmp_path: Path, contain: Callable[[Path], Container]) -> None:
    container = contain(write(tmp_path / 'it\'s "$HOME"'))
    assert said(container.start(), 'it\'s "$HOME"') == str(container.home)


def test_image_installs_extras_required_by_settings(tmp_path: Path) -> None:
    def installed(folder: Path) -> str:
        assert subprocess.run([*SERVER, "dockerfile", str(folder)], check=False).returncode == 0
        (line,) = re.findall(r"^ARG INFERSTREAM=/tmp/(.*)$", (folder / "Dockerfile").read_text(), re.M)
        return line

    assert installed(write(tmp_path / "plain")) == f"{WHEEL}[tracing]"
    models = tmp_path / "models"
    write(models / "a", implementation="mlserver_sklearn.SKLearnModel")
    write(models / "b", implementation="inferstream.plugins.frameworks.xgboost.XGBoostModel")
    (models / "settings.json").write_text('{"kafka_enabled": true}')
    assert installed(models) == f"{WHEEL}[kafka,sklearn,tracing,xgboost]"
    write(
        tmp_path / "chat", implementation="inferstream.plugins.llm.transformers.CausalLM", chat_template="x"
    )
    assert installed(tmp_path / "chat") == f"{WHEEL}[chat,tracing,transformers]"
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "model.bst").write_text("tree")
    assert installed(bare) == f"{WHEEL}[lightgbm,tracing]"
    write(tmp_path / "archive", implementation="inferstream.plugins.torchserve.model.ArchiveModel")
    assert installed(tmp_path / "archive") == f"{WHEEL}[torchserve,tracing]"
