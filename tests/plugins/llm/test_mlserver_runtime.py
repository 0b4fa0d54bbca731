"""Model code that imports and subclasses MLServer's Hugging Face runtime, if its package is not installed."""

import inspect
import json
from pathlib import Path

import httpx
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from inferstream import ModelSettings
from inferstream.ext.hosting import install_aliases
from inferstream.types import InferenceRequest
from tests.artefacts import transformer_models
from tests.serving import Running

pytestmark = pytest.mark.filterwarnings("default")

SUBCLASS = """
from mlserver.types import InferenceRequest, InferenceResponse
from mlserver_huggingface import HuggingFaceRuntime


class Counting(HuggingFaceRuntime):
    async def load(self) -> bool:
        assert self.hf_settings.task == "text-classification"
        loaded = await super().load()
        assert self._model.task == self.hf_settings.task_name
        return loaded

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        response = await super().predict(payload)
        response.outputs.append(response.outputs[0].model_copy(update={"name": "again"}))
        return response
"""

OWN_CALL = """
from mlserver_huggingface.codecs import HuggingfaceRequestCodec
from mlserver_huggingface.runtime import HuggingFaceRuntime
from transformers import pipeline


class Upper(HuggingFaceRuntime):
    async def load(self):
        self._model = pipeline(self.hf_settings.task_name, model=self.settings.parameters.uri)
        return True

    async def predict(self, payload):
        arguments = HuggingfaceRequestCodec.decode_request(payload)
        found = self._model(arguments.pop("args"), **arguments)
        return self.encode_response(found, default_codec=HuggingfaceRequestCodec)
"""


@pytest.mark.parametrize(
    ("code", "name", "outputs"),
    [(SUBCLASS, "Counting", ["output", "again"]), (OWN_CALL, "Upper", ["output"])],
)
def test_subclass_of_the_model_folder_is_served(
    tmp_path: Path, code: str, name: str, outputs: list[str]
) -> None:
    folder = tmp_path / "models" / "texts"
    transformer_models.saved(folder / "weights", "BertForSequenceClassification")
    (folder / "model.py").write_text(code)
    parameters = {"uri": str(folder / "weights"), "extra": {"task": "text-classification"}}
    settings = {"name": "texts", "implementation": f"model.{name}", "parameters": parameters}
    (folder / "model-settings.json").write_text(json.dumps(settings))
    server = Running(tmp_path / "models", within=120)
    try:
        body = {"inputs": [{"name": "args", "datatype": "BYTES", "shape": [1], "data": ["the sky"]}]}
        reply = httpx.post(f"{server.url}/v2/models/texts/infer", json=body, timeout=60)
    finally:
        server.stop()
    assert reply.status_code == 200, reply.text
    assert [each["name"] for each in reply.json()["outputs"]] == outputs
    for each in reply.json()["outputs"]:
        assert each["parameters"]["content_type"] == "hg_jsonlist"
        assert {"label", "score"} == {*json.loads(each["data"][0])}


async def test_class_has_the_names_of_mlserver(tmp_path: Path) -> None:
    install_aliases()
    from mlserver_huggingface import HuggingFaceRuntime, __version__  # type: ignore[import-not-found]
    from mlserver_huggingface.settings import HuggingFaceSettings  # type: ignore[import-not-found]

    transformer_models.saved(tmp_path, "BertForSequenceClassification")
    parameters = {"uri": str(tmp_path), "extra": {"task": "text-classification"}}
    model = HuggingFaceRuntime(
        ModelSettings(name="m", implementation=HuggingFaceRuntime, parameters=parameters)
    )
    assert isinstance(model.hf_settings, HuggingFaceSettings)
    assert inspect.iscoroutinefunction(model.predict)
    assert await model.load()
    inputs = [{"name": "args", "datatype": "BYTES", "shape": [2], "data": ["the sky", "hello"]}]
    response = await model.predict(InferenceRequest.model_validate({"inputs": inputs}))
    assert response.outputs[0].shape == [2, 1]
    assert __version__ == "1.7.1"
