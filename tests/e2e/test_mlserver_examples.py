"""What MLServer's documentation shows: equivalents of its examples, with its imports, settings and requests.

Streaming, typed signatures and routes of a model's own are in `test_mlserver_models.py`, trained models in
`test_runtimes.py` and `test_foreign_runtimes.py`.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import httpx
import pytest

from inferstream import compat
from inferstream.codecs import NumpyCodec, PandasCodec, StringCodec
from inferstream.types import InferenceRequest, InferenceResponse
from tests.artefacts import models
from tests.serving import Running, eventually, tensor, write_model

CUSTOM = """
import json
from typing import Dict

import numpy as np
from mlserver import MLModel, types
from mlserver.utils import get_model_uri


class Posterior(MLModel):
    async def load(self) -> bool:
        with open(await get_model_uri(self._settings)) as file:
            self._samples = {name: np.array(values) for name, values in json.load(file).items()}
        self.ready = True
        return self.ready

    async def predict(self, payload: types.InferenceRequest) -> types.InferenceResponse:
        inputs = self._extract_inputs(payload)
        mean = (self._samples["a"] + self._samples["b"] * inputs["age"]).mean()
        output = types.ResponseOutput(
            name="mean", shape=mean.shape, datatype="FP32", data=np.asarray(mean).tolist()
        )
        return types.InferenceResponse(
            id=payload.id, model_name=self.name, model_version=self.version, outputs=[output]
        )

    def _extract_inputs(self, payload: types.InferenceRequest) -> Dict[str, np.ndarray]:
        return {given.name: np.array(given.data) for given in payload.inputs}
"""
CUSTOM_JSON = """
import json
from typing import Any, Dict

from mlserver import MLModel, types
from mlserver.codecs import StringCodec


class Greeting(MLModel):
    async def load(self) -> bool:
        print("Initialize model")
        return await super().load()

    async def predict(self, payload: types.InferenceRequest) -> types.InferenceResponse:
        answer = json.dumps({"request": self._extract(payload), "server": "Hello."}).encode("UTF-8")
        return types.InferenceResponse(
            id=payload.id,
            model_name=self.name,
            model_version=self.version,
            outputs=[
                types.ResponseOutput(
                    name="greeting",
                    shape=[len(answer)],
                    datatype="BYTES",
                    data=[answer],
                    parameters=types.Parameters(content_type="str"),
                )
            ],
        )

    def _extract(self, payload: types.InferenceRequest) -> Dict[str, Any]:
        codec = StringCodec()
        return {
            given.name: json.loads("".join(self.decode(given, default_codec=codec)))
            for given in payload.inputs
        }
"""
CONTENT_TYPE = """
import json

from mlserver import MLModel
from mlserver.codecs import DecodedParameterName, NumpyCodec, register_input_codec
from mlserver.codecs.utils import InputOrOutput
from mlserver.types import InferenceRequest, InferenceResponse, RequestInput, ResponseOutput

_to_exclude = {
    "parameters": {DecodedParameterName, "headers"},
    "inputs": {"__all__": {"parameters": {DecodedParameterName, "headers"}}},
}


class Image:
    def __init__(self, size, pixels):
        self.size, self.pixels = tuple(size), pixels

    def __repr__(self):
        return f"<image {self.size} {sum(self.pixels)}>"


@register_input_codec
class ImageCodec(NumpyCodec):
    ContentType = "img"

    @classmethod
    def can_encode(cls, payload) -> bool:
        return isinstance(payload, Image)

    @classmethod
    def _decode(cls, tensor: InputOrOutput) -> Image:
        if tensor.datatype != "BYTES":
            return Image(tensor.shape, super().decode_input(tensor).reshape(-1).tolist())
        encoded = tensor.data.__root__
        if isinstance(encoded, str):
            encoded = encoded.encode()
        return Image(tensor.shape, [pixel - ord("0") for pixel in encoded])

    @classmethod
    def decode_input(cls, request_input: RequestInput) -> Image:
        return cls._decode(request_input)

    @classmethod
    def decode_output(cls, response_output: ResponseOutput) -> Image:
        return cls._decode(response_output)


class Echo(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        decoded = self.decode_request(payload)
        outputs = []
        for given in payload.inputs:
            print(f"encoded {given.name}:", json.dumps(given.dict(exclude=_to_exclude)))
            print(f"decoded {given.name}: {type(self.decode(given)).__name__} {self.decode(given)!r}")
            outputs.append(
                ResponseOutput(
                    name=given.name, datatype=given.datatype, shape=given.shape, data=given.data
                )
            )
        print(f"decoded request: {type(decoded).__name__}", flush=True)
        return InferenceResponse(model_name=self.name, outputs=outputs)
"""
BATCHED = """
import asyncio
import os

from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class Summing(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        rows = self.decode(payload.inputs[0], default_codec=NumpyCodec)
        with open(os.environ["TEST_LOG"], "a") as log:
            log.write(f"batch of {len(rows)}\\n")
        while not os.path.exists(os.environ["TEST_LOG"] + ".open"):
            await asyncio.sleep(0.01)
        sums = NumpyCodec.encode_output("sums", rows.sum(axis=1))
        return InferenceResponse(model_name=self.name, outputs=[sums])
"""
METRICS = """
import mlserver
from mlserver import MLModel
from mlserver.codecs import StringCodec
from mlserver.types import InferenceRequest, InferenceResponse


class Measured(MLModel):
    async def load(self) -> bool:
        mlserver.register("my_custom_metric", "This is a custom metric example")
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        mlserver.log(my_custom_metric=34)
        return InferenceResponse(
            model_name=self.name, outputs=[StringCodec.encode_output("said", ["measured"])]
        )
"""
CACHED = """
import uuid

from mlserver import MLModel
from mlserver.codecs import StringCodec
from mlserver.types import InferenceRequest, InferenceResponse


class Unrepeating(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        said = StringCodec.encode_output("said", [self.name, str(uuid.uuid4())])
        return InferenceResponse(model_name=self.name, outputs=[said])
"""
ENVIRONMENT = """
import only_here
from mlserver import MLModel
from mlserver.codecs import StringCodec
from mlserver.types import InferenceRequest, InferenceResponse


class Brought(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        said = StringCodec.encode_output("version", [only_here.__version__])
        return InferenceResponse(model_name=self.name, outputs=[said])
"""


def write_models(root: Path) -> Path:
    at = write_model(
        root, "custom", "models.Posterior", CUSTOM, name="posterior", parameters={"uri": "./posterior.json"}
    )
    (at / "posterior.json").write_text(json.dumps({"a": [1.0, 3.0], "b": [2.0, 2.0]}))
    write_model(root, "custom-json", "jsonmodels.Greeting", CUSTOM_JSON, name="json-hello-world")
    write_model(root, "content-type", "runtime.Echo", CONTENT_TYPE, name="content-type-example")
    declared = [
        {"name": "metadata-np", "datatype": "INT32", "shape": [2, 2], "parameters": {"content_type": "np"}},
        {"name": "metadata-str", "datatype": "BYTES", "shape": [11], "parameters": {"content_type": "str"}},
    ]
    write_model(root, "content-type-declared", "runtime.Echo", CONTENT_TYPE, name="declared", inputs=declared)
    write_model(
        root, "batching", "batched.Summing", BATCHED, name="summing", max_batch_size=5, max_batch_time=0.5
    )
    for name in ("cached", "cached-too"):
        write_model(root, name, "cached.Unrepeating", CACHED, name=name, cache_enabled=True)
    write_model(root, "uncached", "cached.Unrepeating", CACHED, name="uncached")
    write_model(root, "metrics", "measured.Measured", METRICS, name="measured")
    for version in ("1", "2"):
        at = root / "iris" / version
        at.mkdir(parents=True)
        settings = {"name": "iris", "implementation": "mlserver_sklearn.SKLearnModel"}
        settings["parameters"] = {"version": version, "uri": "./model.joblib"}
        (at / "model-settings.json").write_text(json.dumps(settings))
        models.dumped(models.classifier(), at)
    at = write_model(
        root,
        "conda",
        "brought.Brought",
        ENVIRONMENT,
        name="brought",
        parameters={"environment_tarball": "./environment.tar.gz"},
    )
    environment = root.parent / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--copies", "--without-pip", environment], check=True)
    packages = next((environment / "lib").glob("python*")) / "site-packages"
    (packages / "only_here.py").write_text("__version__ = '0.24.2'")
    subprocess.run(["tar", "-czf", at / "environment.tar.gz", "-C", environment, "."], check=True)
    (root / "settings.json").write_text('{"debug": "true", "cache_enabled": true, "cache_size": 10}')
    return root


@pytest.fixture(scope="module")
def served(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = write_models(tmp_path_factory.mktemp("documented") / "models")
    environments = folder.parent / "environments"
    running = Running(
        folder,
        within=120,
        MLSERVER_PARALLEL_WORKERS=str(workers),
        MLSERVER_ENVIRONMENTS_DIR=str(environments),
    )
    yield running
    assert running.stop() == 0, running.text()


def test_custom(served: Running) -> None:
    answer = served.infer("posterior", {"inputs": [tensor("age", "FP32", [28.0])]}).json()
    assert answer["outputs"] == [{"name": "mean", "shape": [], "datatype": "FP32", "data": 58.0}]


def test_custom_json_over_rest(served: Running) -> None:
    said = json.dumps({"name": "Foo Bar", "message": "Hello from Client (REST)!"})
    inputs = [{"name": "echo_request", "shape": [len(said)], "datatype": "BYTES", "data": [said]}]
    answer = served.infer("json-hello-world", {"inputs": inputs})
    response = InferenceResponse.parse_raw(answer.text)
    assert json.loads(StringCodec.decode_output(response.outputs[0])[0]) == {
        "request": {"echo_request": json.loads(said)},
        "server": "Hello.",
    }


def test_custom_json_over_grpc(served: Running) -> None:
    compat.install()
    import mlserver.grpc.converters as converters  # type: ignore[import-not-found]
    import mlserver.grpc.dataplane_pb2_grpc as dataplane  # type: ignore[import-not-found]
    import mlserver.types as types  # type: ignore[import-not-found]

    said = json.dumps({"message": "Hello from Client (gRPC)!"}).encode()
    request = types.InferenceRequest(
        inputs=[
            types.RequestInput(
                name="echo_request",
                shape=[len(said)],
                datatype="BYTES",
                data=[said],
                parameters=types.Parameters(content_type="str"),
            )
        ]
    )
    message = converters.ModelInferRequestConverter.from_types(
        request, model_name="json-hello-world", model_version=None
    )
    with grpc.insecure_channel(served.grpc) as channel:
        answer = dataplane.GRPCInferenceServiceStub(channel).ModelInfer(message, timeout=20)
    response = converters.ModelInferResponseConverter.to_types(answer)
    greeted = json.loads(StringCodec.decode_output(response.outputs[0])[0])
    assert greeted["request"] == {"echo_request": json.loads(said)}


NUMBERS = tensor("parameters-np", "INT32", [1, 2, 3, 4], [2, 2], parameters={"content_type": "np"})
WORDS = {"name": "parameters-str", "datatype": "BYTES", "parameters": {"content_type": "str"}}


def test_input_content_types(served: Running) -> None:
    words = {**WORDS, "shape": [1], "data": "hello world 😁"}
    answer = served.infer("content-type-example", {"inputs": [NUMBERS, words]})
    assert [output["data"] for output in answer.json()["outputs"]] == [[1, 2, 3, 4], "hello world 😁"]
    said = served.text()
    assert "decoded parameters-np: ndarray array([[1, 2]," in said
    assert "decoded parameters-str: list ['hello world 😁']" in said


def test_codec_content_types(served: Running) -> None:
    import numpy as np

    request = InferenceRequest(
        inputs=[
            NumpyCodec.encode_input("parameters-np", np.array([[1, 2], [3, 4]])),
            StringCodec.encode_input("parameters-str", ["hello world 😁"], use_bytes=False),
        ]
    )
    answer = served.infer("content-type-example", request.dict())
    response = InferenceResponse.parse_raw(answer.text)
    assert NumpyCodec.decode_output(response.outputs[0]).tolist() == [[1, 2], [3, 4]]
    assert StringCodec.decode_output(response.outputs[1]) == ["hello world 😁"]


def test_metadata_content_types(served: Running) -> None:
    numbers = tensor("metadata-np", "INT32", [1, 2, 3, 4], [2, 2])
    words = {"name": "metadata-str", "datatype": "BYTES", "shape": [11], "data": "hello world 😁"}
    assert served.infer("declared", {"inputs": [numbers, words]}).status_code == 200
    said = served.text()
    assert "decoded metadata-np: ndarray" in said
    assert "decoded metadata-str: list ['hello world 😁']" in said


def test_custom_content_types(served: Running) -> None:
    pixels = [1, 0] * 32
    image = {"shape": [8, 8], "parameters": {"content_type": "img"}}
    numbers = {"name": "image-int32", "datatype": "INT32", "data": pixels, **image}
    letters = {"name": "image-bytes", "datatype": "BYTES", "data": "10" * 32, **image}
    assert served.infer("content-type-example", {"inputs": [numbers, letters]}).status_code == 200
    for name in ("image-int32", "image-bytes"):
        assert f"decoded {name}: Image <image (8, 8) 32>" in served.text()


def test_request_content_types(served: Running) -> None:
    words = {**WORDS, "shape": [2, 11], "data": ["hello world 😁", "bye bye 😁"]}
    numbers = tensor("parameters-np", "INT32", [1, 2], [2], parameters={"content_type": "np"})
    request = {"inputs": [numbers, words], "parameters": {"content_type": "pd"}}
    assert served.infer("content-type-example", request).status_code == 200
    assert "decoded request: DataFrame" in served.text()


def test_data_frame_codec(served: Running) -> None:
    import pandas as pd

    frame = pd.DataFrame({"First Name": ["Joanne", "Michael"], "Age": [34, 22]})
    request = PandasCodec.encode_request(frame, use_bytes=False)
    answer = served.infer("content-type-example", request.dict())
    assert [output["shape"] for output in answer.json()["outputs"]] == [[2, 1], [2, 1]]


def test_adaptive_batching(served: Running) -> None:
    def asked(row: int) -> list:
        body = {"inputs": [tensor("payload", "INT32", [row, 1], [1, 2])]}
        return served.infer("summing", body).json()["outputs"][0]["data"]

    with ThreadPoolExecutor(20) as pool:
        answers = pool.map(asked, range(20))
        try:
            eventually(lambda: served.noted("batch of 5"))
        finally:
            Path(f"{served.log}.open").touch()
        assert list(answers) == [[row + 1] for row in range(20)]


def test_caching(served: Running) -> None:
    def said(model: str, value: int = 1) -> list[str]:
        answer = served.infer(model, {"inputs": [tensor("x", "INT32", [value])]})
        return answer.json()["outputs"][0]["data"]

    first = said("cached")
    assert said("cached") == first
    assert said("cached", 2) != first
    assert said("uncached") != said("uncached")
    assert said("cached-too")[0] == "cached-too", "another model's answer, which MLServer gives"


def test_metrics(served: Running) -> None:
    before = served.metric("my_custom_metric_sum", model_name="measured")
    for _ in range(3):
        assert served.infer("measured", {"inputs": [tensor("x", "INT32", [1])]}).status_code == 200
    assert served.metric("my_custom_metric_sum", model_name="measured") == before + 3 * 34
    assert served.metric("model_infer_request_success_total", model="measured") >= 3
    own = httpx.get(f"http://127.0.0.1:{served.metrics_port}/metrics")
    assert "# HELP my_custom_metric This is a custom metric example" in own.text


def test_custom_environments(served: Running) -> None:
    answer = served.infer("brought", {"inputs": [tensor("x", "INT32", [1])]})
    assert answer.json()["outputs"][0]["data"] == ["0.24.2"]


def test_model_with_several_versions(served: Running) -> None:
    request = {"inputs": [tensor("predict", "FP64", models.FLOWERS[0].tolist(), [1, 4])]}
    for path, version in {"iris/versions/1": "1", "iris/versions/2": "2", "iris": "2"}.items():
        answer = served.infer(path, request).json()
        assert (answer["model_version"], answer["outputs"][0]["data"]) == (version, [0])


def test_model_repository(served: Running) -> None:
    def states() -> dict[str, str]:
        index = httpx.post(f"{served.url}/v2/repository/index", json={})
        return {model["version"]: model["state"] for model in index.json() if model["name"] == "iris"}

    models_url = f"{served.url}/v2/repository/models/iris"
    request = {"inputs": [tensor("predict", "FP64", models.FLOWERS[0].tolist(), [1, 4])]}
    assert states() == {"1": "READY", "2": "READY"}
    assert httpx.post(f"{models_url}/unload", timeout=30).status_code == 200
    assert states() == {"1": "UNAVAILABLE", "2": "UNAVAILABLE"}
    assert served.infer("iris", request).status_code == 404
    assert httpx.post(f"{models_url}/load", timeout=30).status_code == 200
    assert states() == {"1": "READY", "2": "READY"}
    assert served.infer("iris", request).status_code == 200
