"""The examples do what the README says they do."""

from pathlib import Path

import pytest

from tests.serving import Running, tensor

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory):
    link = tmp_path_factory.mktemp("served") / "examples"
    link.symlink_to(EXAMPLES)
    running = Running(link)
    yield running
    assert running.stop() == 0


def test_functions_answer_by_their_annotations(tmp_path: Path) -> None:
    link = tmp_path / "functions"
    link.symlink_to(EXAMPLES / "functions")
    running = Running(link)
    try:
        person = {"person": {"name": "Ada", "age": 36}, "language": "fr"}
        greeting = running.infer("greet", person, "generate")
        assert greeting.json()["output"] == "Bonjour, Ada (36)"
        scaled = running.infer("scale", {"x": [[1, 2, 3, 4]]}, "generate")
        assert scaled.json()["output"] == [[2, 4, 6, 8]]
        odd = running.infer("halve", {"number": 3}, "generate")
        assert (odd.status_code, odd.json()["error"]) == (422, "3 is odd")
    finally:
        assert running.stop() == 0


def test_iris_classifies(examples: Running) -> None:
    flowers = [[5.1, 3.5, 1.4, 0.2], [6.3, 2.9, 5.6, 1.8]]
    answer = examples.infer("iris", {"inputs": [tensor("features", "FP64", flowers, [2, 4])]}).json()
    assert answer["outputs"][0]["data"] == [0, 2]
    assert answer["outputs"][1]["shape"] == [2, 3]
    assert answer["model_version"] == "1"


def test_a_model_without_code_classifies(examples: Running) -> None:
    flowers = {"inputs": [tensor("features", "FP32", [5.1, 3.5, 1.4, 0.2, 6.3, 2.9, 5.6, 1.8], [2, 4])]}
    assert examples.infer("iris-boosted", flowers).json()["outputs"][0]["data"] == [0, 2]
    both = {**flowers, "outputs": [{"name": "predict"}, {"name": "predict_proba"}]}
    assert examples.infer("iris-boosted", both).json()["outputs"][1]["shape"] == [2, 3]


def test_typed_arguments_decode_and_encode(examples: Running) -> None:
    inputs = [tensor("values", "FP32", [1, 2, 3, 4], [2, 2]), tensor("labels", "BYTES", ["a", "b"])]
    answer = examples.infer("scaler", {"inputs": inputs}).json()
    assert answer["outputs"][0]["data"] == [2, 4, 6, 8]
    assert answer["outputs"][1]["data"] == ["a: 6", "b: 14"]
    tripled = examples.infer("scaler", {"inputs": [*inputs, tensor("factor", "FP32", [3])]}).json()
    assert tripled["outputs"][0]["data"] == [3, 6, 9, 12]
    missing = examples.infer("scaler", {"inputs": inputs[:1]})
    assert missing.status_code == 400
    assert "labels" in missing.json()["error"]


def test_the_sum_runs_over_one_bidirectional_stream(examples: Running) -> None:
    import grpc
    import numpy as np

    from inferstream.codecs import NumpyCodec
    from inferstream.protos.converters import ModelInferRequestConverter, ModelInferResponseConverter
    from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
    from inferstream.types import InferenceRequest

    sums: list[float] = []

    def values():
        """The next value goes only after the last sum has come: both directions are open at once."""
        for i in range(1, 4):
            assert len(sums) == i - 1
            request = InferenceRequest(inputs=[NumpyCodec.encode_input("value", np.array([float(i)]))])
            yield ModelInferRequestConverter.from_types(request, "running-sum")
            arrived.acquire()

    from threading import Semaphore

    arrived = Semaphore(0)
    with grpc.insecure_channel(examples.grpc) as channel:
        for message in GRPCInferenceServiceStub(channel).ModelStreamInfer(values(), timeout=20):
            response = ModelInferResponseConverter.to_types(message)
            sums.append(NumpyCodec.decode_output(response.outputs[0]).item())
            arrived.release()
    assert sums == [1, 3, 6]


def test_many_texts_are_written_in_the_same_steps(examples: Running) -> None:
    import json
    from concurrent.futures import ThreadPoolExecutor

    import httpx
    from httpx_sse import connect_sse

    corpus = set((EXAMPLES / "char-lm" / "corpus.txt").read_text().split())

    def write(seed: int) -> str:
        url = f"{examples.url}/v2/models/char-lm/generate_stream"
        body = {"prompt": "The old man ", "length": 100, "seed": seed}
        with httpx.Client(timeout=20) as client, connect_sse(client, "POST", url, json=body) as source:
            return "".join(json.loads(event.data)["text"] for event in source.iter_sse())

    with ThreadPoolExecutor(40) as pool:
        texts = list(pool.map(write, range(40)))
    assert [len(text) for text in texts] == [100] * 40
    assert len(set(texts)) > 1, "another seed is another text"
    words = " ".join(text.rpartition(" ")[0] for text in texts).split()
    assert sum(word in corpus for word in words) > 0.8 * len(words), "it has learnt its words"
    steps = examples.metric("inferstream_step_size_count", model="char-lm")
    assert examples.metric("inferstream_step_size_sum", model="char-lm") > 2 * steps

    whole = examples.infer("char-lm", {"prompt": "the fish", "length": 30}, "generate").json()
    assert len(whole["text"]) == 30
    for wrong in ({"length": 0}, {"temperature": -1}):
        answer = examples.infer("char-lm", {"prompt": "the fish", **wrong}, "generate")
        assert answer.status_code == 400
