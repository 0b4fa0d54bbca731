"""What served models may import: code that they share, code beside the folder, and MLServer's runtimes by name."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http

from inferstream import processors
from tests.artefacts import models
from tests.serving import Running, eventually, tensor, text, write_model

MODEL = """
from mlserver import MLModel
from mlserver.codecs import StringCodec
from mlserver.types import InferenceResponse
import helper
from shared_words.spelling import WORD

class Model(MLModel):
    async def predict(self, payload):
        import beside_the_folder  # nothing has imported this before
        said = [WORD, helper.WHOSE, beside_the_folder.WORD]
        return InferenceResponse(model_name=self.name, outputs=[StringCodec.encode_output("said", said)])

    async def predict_stream(self, payloads):
        async for payload in payloads:
            yield await self.predict(payload)
"""
SAFE = {"PYTHONSAFEPATH": "1"}
"""As the console script starts: `python -m` would put the working folder on the path by itself."""


def write_models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    for name in ("one", "two"):
        at = write_model(folder, name, "models.Model", MODEL)
        (at / "helper.py").write_text(f"WHOSE = {name!r}")
    (folder / "shared_words").mkdir()
    (folder / "shared_words" / "spelling.py").write_text("WORD = 'shared'")
    (folder / "colorsys.py").write_text("raise RuntimeError('hides the standard library')")
    (folder / "numpy.py").write_text("raise RuntimeError('hides an installed module')")
    (tmp_path / "beside_the_folder.py").write_text("import colorsys, numpy.fft\nWORD = 'beside'")
    return folder


def said(server: Running, model: str) -> list[str]:
    return server.infer(model, text()).json()["outputs"][0]["data"]


def test_models_share_code_and_keep_state(serve, tmp_path) -> None:
    server = serve(write_models(tmp_path), **SAFE)
    for name in ("one", "two"):
        expected = ["shared", name, "beside"]
        assert said(server, name) == expected
        streamed = server.infer(name, text(), "infer_stream").text.removeprefix("data: ")
        assert json.loads(streamed)["outputs"][0]["data"] == expected
        with triton_grpc.InferenceServerClient(server.grpc) as client:
            given = triton_grpc.InferInput("text", [1], "BYTES")
            given.set_data_from_numpy(np.array([b"hi"], dtype=object))
            answer = client.infer(name, [given]).as_numpy("said")
            assert [word.decode() for word in answer.ravel()] == expected


def test_front_ends_share_code(serve, tmp_path) -> None:
    server = serve(write_models(tmp_path), "--frontends", "2", **SAFE)
    for _ in range(8):  # new connections, which the kernel gives to one front end or the other
        assert said(server, "one") == ["shared", "one", "beside"]


def test_changed_shared_code_reloads_every_model(serve, tmp_path) -> None:
    folder = write_models(tmp_path)
    server = serve(folder, "--reload", **SAFE)
    assert said(server, "one")[0] == said(server, "two")[0] == "shared"

    def changed() -> bool:
        spelling = folder / "shared_words" / "spelling.py"
        spelling.with_suffix(".new").write_text("WORD = 'changed'")
        spelling.with_suffix(".new").replace(spelling)
        return said(server, "one")[0] == said(server, "two")[0] == "changed"

    eventually(changed, 20)
    assert said(server, "one")[1] == "one"


DESCRIBED = """
from mlserver import MLModel
from mlserver.codecs import StringCodec
from mlserver.types import InferenceResponse
from mlserver.utils import get_model_uri

class Model(MLModel):
    async def load(self):
        with open(await get_model_uri(self._settings)) as file:
            self._words = file.read()
        return True

    async def predict(self, payload):
        return InferenceResponse(model_name=self.name, outputs=[StringCodec.encode_output("said", [self._words])])
"""


@pytest.mark.parametrize("prefix", ["MLSERVER_MODEL_", "INFERSTREAM_MODEL_"])
def test_environment_model_is_found_next_to_settings_json(serve, tmp_path, prefix: str) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "settings.json").write_text("{}")
    (folder / "described.py").write_text(DESCRIBED)
    (tmp_path / "artefact").mkdir()
    (tmp_path / "artefact" / "words.txt").write_text("from the working folder")
    variables = {"NAME": "described", "IMPLEMENTATION": "described.Model", "URI": "./artefact/words.txt"}

    server = serve(folder, **{f"{prefix}{name}": value for name, value in variables.items()}, **SAFE)

    assert said(server, "described") == ["from the working folder"]
    (tmp_path / "artefact" / "words.txt").write_text("anew")
    assert httpx.post(f"{server.url}/v2/repository/models/described/load").status_code == 200
    assert said(server, "described") == ["anew"]
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        assert client.is_model_ready("described")


def test_invalid_variables_are_named_in_index(start, tmp_path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    variables = {"MLSERVER_MODEL_IMPLEMENTATION": "described.Model", "MLSERVER_MODEL_MAX_BATCH_SIZE": "-1"}
    server = start(folder, **variables)
    (found,) = httpx.post(f"{server.url}/v2/repository/index").json()
    assert "MLSERVER_MODEL_MAX_BATCH_SIZE" in found["reason"]


RUNTIMES = """
import json
from mlserver.codecs import StringCodec
from mlserver.types import InferenceResponse
from mlserver_sklearn import SKLearnModel
from mlserver_xgboost import XGBoostModel
from mlserver_lightgbm import LightGBMModel

class Labelled(SKLearnModel):
    async def load(self):
        await super().load()
        self._kind = type(self._model).__name__
        return True

    async def predict(self, payload):
        response = await super().predict(payload)
        said = [self._kind, str(self.settings.threads)]
        response.outputs.append(StringCodec.encode_output("kind", said))
        return response

class Boosted(XGBoostModel):
    pass

class Light(LightGBMModel):
    pass
"""


@pytest.fixture
def ask_runtime() -> Callable[..., dict[str, np.ndarray]]:
    def ask(server: Running, model: str, library, address: str) -> dict[str, np.ndarray]:
        given = library.InferInput("features", [3, 4], "FP64")
        given.set_data_from_numpy(models.FLOWERS[::50][:3])
        with library.InferenceServerClient(address) as client:
            answer = client.infer(model, [given])
            names = ("predict", "kind") if model == "labelled" else ("predict",)
            return {name: answer.as_numpy(name) for name in names}

    return ask


def test_mlserver_runtimes_can_be_subclassed_without_wheels(
    serve, tmp_path, ask_runtime, workers: int
) -> None:
    threads = max(1, processors.available() // max(1, workers))  # workers share the processors
    folder = tmp_path / "models"
    at = write_model(folder, "labelled", "models.Labelled", RUNTIMES)
    models.dumped(models.classifier(), at)
    models.boosted("XGBClassifier", write_model(folder, "boosted", "models.Boosted", RUNTIMES), "model.json")
    models.light(write_model(folder, "light", "models.Light", RUNTIMES))
    server = serve(folder, within=120)
    for library, address in ((triton_http, f"127.0.0.1:{server.http_port}"), (triton_grpc, server.grpc)):
        found = ask_runtime(server, "labelled", library, address)
        assert found["predict"].ravel().tolist() == [0, 1, 2]
        assert found["kind"].ravel().tolist() == [b"LogisticRegression", str(threads).encode()]
        assert ask_runtime(server, "boosted", library, address)["predict"].ravel().tolist() == [0, 1, 2]
        assert ask_runtime(server, "light", library, address)["predict"].shape == (3, 3)
    refused = server.infer(
        "labelled", {"inputs": [tensor("x", "FP64", [1.0] * 4, [1, 4])], "outputs": [{"name": "guess"}]}
    )
    assert refused.status_code == 400
    assert "guess" in refused.json()["error"]
