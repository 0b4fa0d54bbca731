"""A folder as Triton has it, served as it is and asked by Triton's clients."""

import json
from collections.abc import Iterator

import pytest

pytest.importorskip("tritonclient")
pytest.importorskip("onnxruntime")

import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from tests.artefacts import graphs, models
from tests.serving import Running

CONFIG = """
name: "flowers"
platform: "onnxruntime_onnx"
max_batch_size: 16
input [ { name: "flowers" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [
  { name: "species" data_type: TYPE_INT64 dims: [ 1 ] reshape: { shape: [ ] } },
  { name: "probabilities" data_type: TYPE_FP32 dims: [ 3 ] label_filename: "labels.txt" }
]
"""


@pytest.fixture(scope="module", params=[0, 2], ids=["process", "workers"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("triton")
    (root / "settings.json").write_text(json.dumps({"parallel_workers": request.param}))
    (root / "flowers" / "1").mkdir(parents=True)
    (root / "flowers" / "config.pbtxt").write_text(CONFIG)
    (root / "flowers" / "labels.txt").write_text("setosa\nversicolor\nvirginica\n")
    graphs.classifier(root / "flowers" / "1")
    running = Running(root)
    yield running
    assert running.stop() == 0


@pytest.mark.parametrize("library", [triton_http, triton_grpc], ids=["http", "grpc"])
def test_onnx_model_returns_labels(server: Running, library) -> None:
    address = server.grpc if library is triton_grpc else f"127.0.0.1:{server.http_port}"
    client = library.InferenceServerClient(address)
    config = client.get_model_config("flowers", "1")
    config = config if isinstance(config, dict) else config.config
    read = config.__getitem__ if isinstance(config, dict) else lambda name: getattr(config, name)
    assert (read("platform"), read("max_batch_size")) == ("onnxruntime_onnx", 16)
    given = library.InferInput("flowers", [3, 4], "FP32")
    given.set_data_from_numpy(models.FLOWERS[[0, 75, 149]].astype("float32"))
    asked = [library.InferRequestedOutput("probabilities", class_count=2)]
    classes = client.infer("flowers", [given], outputs=asked).as_numpy("probabilities")
    assert classes.shape == (3, 2)
    assert [row[0].decode().split(":")[1:] for row in classes] == [
        ["0", "setosa"],
        ["1", "versicolor"],
        ["2", "virginica"],
    ]
    assert "is unknown and ignored" not in server.text()
    assert client.infer("flowers", [given]).as_numpy("species").shape == (3, 1)
    with pytest.raises(InferenceServerException, match='input "flowers" is missing'):
        client.infer("flowers", [])
    many = library.InferInput("flowers", [17, 4], "FP32")
    many.set_data_from_numpy(models.FLOWERS[:17].astype("float32"))
    with pytest.raises(InferenceServerException, match="17 rows; the model takes 16") as refused:
        client.infer("flowers", [many])
    assert refused.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")
    client.close()
