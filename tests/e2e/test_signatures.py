"""What annotations say of a model is seen over REST, gRPC and OpenAPI, and refuses nothing that was accepted."""

from collections.abc import Iterator
from typing import Any

import grpc
import httpx
import pytest

from inferstream.protos.dataplane_pb2 import ModelMetadataRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, tensor, write_model

TYPED = """
from collections.abc import AsyncIterator

import numpy as np
from numpy.typing import NDArray

from inferstream import MLModel
from inferstream.codecs import decode_args


class Typed(MLModel):
    @decode_args
    async def predict(
        self, numbers: NDArray[np.float32], names: list[str] | None = None
    ) -> tuple[NDArray[np.float32], list[str]]:
        "Doubles numbers."
        return (numbers * 2).astype(np.float32), names or []


class Words(MLModel):
    @decode_args
    async def predict_stream(self, prompt: list[str]) -> AsyncIterator[list[str]]:
        for word in prompt[0].split():
            yield [word]
"""

MLSERVER = """
from typing import List

from mlserver import MLModel
from mlserver.codecs import decode_args


class Loud(MLModel):
    @decode_args
    async def predict(self, texts: List[str]) -> List[str]:
        return [str(text).upper() for text in texts]
"""

NAMED = [
    {"name": "doubled", "datatype": "FP32", "shape": [-1, 1]},
    {"name": "n", "datatype": "BYTES", "shape": [-1]},
]


@pytest.fixture(scope="module")
def served(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("signatures") / "models"
    write_model(root, "typed", "typed.Typed", TYPED)
    write_model(root, "named", "typed.Typed", TYPED, outputs=NAMED)
    write_model(root, "strict", "typed.Typed", TYPED, input_validation="strict")
    write_model(root, "words", "typed.Words", TYPED)
    write_model(root, "loud", "loud.Loud", MLSERVER)
    running = Running(root, INFERSTREAM_PARALLEL_WORKERS=str(workers))
    yield running
    assert running.stop() == 0, running.text()


def over_rest(served: Running, model: str, side: str) -> list[tuple[Any, ...]]:
    metadata = httpx.get(f"{served.url}/v2/models/{model}").json()
    return [
        (
            each["name"],
            each["datatype"],
            each["shape"],
            (each.get("parameters") or {}).get("content_type"),
            (each.get("parameters") or {}).get("optional", False),
        )
        for each in metadata[side]
    ]


def over_grpc(served: Running, model: str, side: str) -> list[tuple[Any, ...]]:
    with grpc.insecure_channel(served.grpc) as channel:
        metadata = GRPCInferenceServiceStub(channel).ModelMetadata(
            ModelMetadataRequest(name=model), timeout=20
        )
    return [
        (
            each.name,
            each.datatype,
            [*each.shape],
            each.parameters["content_type"].string_param or None if each.parameters else None,
            each.parameters["optional"].bool_param if "optional" in each.parameters else False,
        )
        for each in getattr(metadata, side)
    ]


@pytest.mark.parametrize("metadata", [over_rest, over_grpc])
def test_metadata_follows_annotations(served: Running, metadata: Any) -> None:
    assert metadata(served, "typed", "inputs") == [
        ("numbers", "FP32", [-1], "np", False),
        ("names", "BYTES", [-1, 1], "str", True),
    ]
    assert metadata(served, "typed", "outputs") == [
        ("output-0", "FP32", [-1, -1], "np", False),
        ("output-1", "BYTES", [-1, 1], "str", False),
    ]
    assert metadata(served, "words", "inputs") == [("prompt", "BYTES", [-1, 1], "str", False)]
    assert metadata(served, "loud", "outputs") == [("output-0", "BYTES", [-1, 1], "str", False)]


@pytest.mark.parametrize("metadata", [over_rest, over_grpc])
def test_declared_outputs_override_and_name_results(served: Running, metadata: Any) -> None:
    assert [each[:3] for each in metadata(served, "named", "outputs")] == [
        ("doubled", "FP32", [-1, 1]),
        ("n", "BYTES", [-1]),
    ]
    assert metadata(served, "named", "inputs")[0][0] == "numbers"
    answer = served.infer("named", {"inputs": [tensor("numbers", "FP32", [1.0])]}).json()
    assert [output["name"] for output in answer["outputs"]] == ["doubled", "n"]


def test_openapi_has_valid_example_and_docstring(served: Running) -> None:
    for model, action in (("typed", "infer"), ("words", "infer_stream"), ("loud", "infer")):
        document = httpx.get(f"{served.url}/v2/models/{model}/docs/dataplane.json").json()
        post = document["paths"][f"/v2/models/{model}/{action}"]["post"]
        example = post["requestBody"]["content"]["application/json"]["example"]
        answer = served.infer(model, example, action)
        assert answer.status_code == 200, answer.text
        assert document["info"].get("description") == ("Doubles numbers." if model == "typed" else None)


LOOSE = [
    [tensor("texts", "BYTES", ["a"])],
    [tensor("texts", "BYTES", ["a", "b"], [1, 2])],
    [tensor("texts", "BYTES", ["a"], [1, 1, 1])],
    [{"name": "texts", "datatype": "BYTES", "shape": [7], "data": ["a"]}],
]


@pytest.mark.parametrize("inputs", LOOSE)
def test_mlserver_folder_accepts_same_requests(served: Running, inputs: list[dict]) -> None:
    answer = served.infer("loud", {"inputs": inputs})
    assert answer.status_code == 200, answer.text
    assert served.infer("loud", {"texts": ["a"]}, "generate").json()["output-0"] == "A"


@pytest.mark.parametrize(
    ("inputs", "typed", "strict"),
    [
        ([tensor("numbers", "FP32", [1.0, 2.0], [2, 1, 1])], 200, 200),
        ([tensor("numbers", "FP64", [1.0])], 200, 400),
        ([tensor("numbers", "INT8", [1])], 200, 400),
    ],
)
def test_only_strict_validates_annotated_datatypes(
    served: Running, inputs: list[dict], typed: int, strict: int
) -> None:
    assert served.infer("typed", {"inputs": inputs}).status_code == typed
    refused = served.infer("strict", {"inputs": inputs})
    assert refused.status_code == strict
    assert strict == 200 or "the model takes FP32, got" in refused.text
