"""A program of torch.export, a file alone, over each door and through clients that others wrote."""

from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from inferstream import Client
from tests.serving import Running, eventually

pytest.importorskip("torch")

from tests.artefacts import models, modules

FLOWERS = models.FLOWERS[5::10].astype(np.float32)
SPECIES = models.SPECIES[5::10].tolist()
SCALE = np.ones((15, 1), np.float32)
RECOGNISED = (
    "iris has no settings: iris.pt2 says that inferstream.plugins.frameworks.torch.TorchModel reads it"
)


@pytest.fixture(scope="module")
def served(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("served") / "models"
    folder.mkdir()
    modules.exported(folder, "iris.pt2")
    batching = {"INFERSTREAM_MODEL_MAX_BATCH_SIZE": "8", "INFERSTREAM_MODEL_MAX_BATCH_TIME": "0.5"}
    # Torch takes seconds of CPU to import, and a busy machine takes a multiple of it.
    running = Running(
        folder,
        target="models/iris.pt2",
        within=120,
        INFERSTREAM_PARALLEL_WORKERS=str(workers),
        **batching,
    )
    yield running
    assert running.stop() == 0, running.text()


def test_banner_shows_detected_format(served: Running) -> None:
    assert eventually(lambda: RECOGNISED in served.text())


@pytest.mark.parametrize("library", [triton_grpc, triton_http])
def test_triton_clients(served: Running, library: Any) -> None:
    address = served.grpc if library is triton_grpc else f"127.0.0.1:{served.http_port}"
    with library.InferenceServerClient(address) as client:

        def asked(flowers: np.ndarray, datatype: str = "FP32") -> Any:
            given = []
            for name, array in (("flowers", flowers), ("scale", SCALE)):
                tensor = library.InferInput(
                    name, list(array.shape), datatype if name == "flowers" else "FP32"
                )
                tensor.set_data_from_numpy(array)
                given.append(tensor)
            return client.infer("iris", given)

        answer = asked(FLOWERS)
        assert answer.as_numpy("argmax").tolist() == SPECIES
        probabilities = models.classifier().predict_proba(models.FLOWERS[5::10])
        assert np.allclose(answer.as_numpy("softmax"), probabilities, atol=1e-4)
        with pytest.raises(InferenceServerException, match='input "flowers": the model takes FP32, got FP64'):
            asked(FLOWERS.astype(np.float64), "FP64")
        with pytest.raises(InferenceServerException, match=r"takes shape \[-1, 4\], got \[15, 3\]"):
            asked(np.ascontiguousarray(FLOWERS[:, :3]))


@pytest.mark.parametrize("door", ["rest", "grpc"])
def test_python_client(served: Running, door: str) -> None:
    with Client(served.url if door == "rest" else f"grpc://{served.grpc}") as client:
        assert [*client.predict("iris", flowers=FLOWERS, scale=SCALE)["argmax"]] == SPECIES


def test_plain_requests(served: Running) -> None:
    inputs = [each["shape"] for each in httpx.get(f"{served.url}/v2/models/iris").json()["inputs"]]
    assert inputs == [[-1, 4], [-1, 1]]
    flat = {"flowers": FLOWERS.tolist(), "scale": SCALE.tolist()}
    answer = httpx.post(f"{served.url}/v2/models/iris/generate", json=flat, timeout=60)
    assert answer.json()["argmax"] == SPECIES
