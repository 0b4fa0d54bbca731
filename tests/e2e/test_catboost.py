"""A CatBoost model, a file alone, through each client."""

from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from inferstream import Client
from tests.artefacts import models
from tests.serving import Running, eventually

catboost = pytest.importorskip("catboost")

FLOWERS, SPECIES = models.FLOWERS[5::10], models.SPECIES[5::10].tolist()
RECOGNISED = (
    "iris has no settings: iris.cbm says that inferstream.plugins.frameworks.catboost.CatBoostModel reads it"
)


def test_a_classifier(tmp_path: Path, workers: int) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    settings = {"iterations": 20, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
    catboost.CatBoostClassifier(**settings).fit(models.FLOWERS, models.SPECIES).save_model(
        folder / "iris.cbm"
    )
    batching = {"INFERSTREAM_MODEL_MAX_BATCH_SIZE": "8", "INFERSTREAM_MODEL_MAX_BATCH_TIME": "0.5"}
    running = Running(
        folder, target="models/iris.cbm", within=120, INFERSTREAM_PARALLEL_WORKERS=str(workers), **batching
    )
    try:
        eventually(lambda: RECOGNISED in running.text())
        for library, address in (
            (triton_grpc, running.grpc),
            (triton_http, f"127.0.0.1:{running.http_port}"),
        ):
            with library.InferenceServerClient(address) as client:
                given = library.InferInput("features", [15, 4], "FP64")
                given.set_data_from_numpy(FLOWERS)
                assert client.infer("iris", [given]).as_numpy("predict")[:, 0].tolist() == SPECIES
                given = library.InferInput("features", [15, 3], "FP64")
                given.set_data_from_numpy(FLOWERS[:, :3].copy())
                with pytest.raises(InferenceServerException, match=r"takes shape \[-1, 4\], got \[15, 3\]"):
                    client.infer("iris", [given])
        for url in (running.url, f"grpc://{running.grpc}"):
            with Client(url) as client:
                assert np.ravel(client.predict("iris", features=FLOWERS)).tolist() == SPECIES
    finally:
        assert running.stop() == 0, running.text()
