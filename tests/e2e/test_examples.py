"""The examples do what the README says they do."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from httpx_sse import connect_sse
from openai import OpenAI
from websockets.sync.client import connect

from tests.serving import Running, tensor

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory):
    link = tmp_path_factory.mktemp("served") / "examples"
    link.symlink_to(EXAMPLES)
    running = Running(link)
    yield running
    assert running.stop() == 0


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Callable[[str], Running]]:
    """Serve an example that is an app."""
    servers: list[Running] = []

    def serve(name: str) -> Running:
        link = tmp_path / name
        link.symlink_to(EXAMPLES / name)
        servers.append(Running(link))
        return servers[-1]

    yield serve
    for server in servers:
        assert server.stop() == 0


def test_functions_return_annotated_values(app: Callable[[str], Running]) -> None:
    running = app("functions")
    person = {"person": {"name": "Ada", "age": 36}, "language": "fr"}
    greeting = running.infer("greet", person, "generate")
    assert greeting.json()["output"] == "Bonjour, Ada (36)"
    scaled = running.infer("scale", {"x": [[1, 2, 3, 4]]}, "generate")
    assert scaled.json()["output"] == [[2, 4, 6, 8]]
    odd = running.infer("halve", {"number": 3}, "generate")
    assert (odd.status_code, odd.json()["error"]) == (422, "3 is odd")


def test_code_assistant_completes_up_to_code_after_cursor(
    app: Callable[[str], Running],
) -> None:
    client = OpenAI(base_url=f"{app('code-assistant').url}/v1", api_key="none")
    code = "for item in load(path):\n    print(item)\n\nfor item in"
    whole = client.completions.create(model="complete", prompt=code)
    assert whole.choices[0].text == " load(path):\n    print(item)\n\n"
    tokens = client.completions.create(
        model="complete", prompt=f"{code} load(path):\n    print(", suffix=")\n", stream=True
    )
    assert [token.choices[0].text for token in tokens if token.choices[0].text] == ["item"]
    known = client.completions.create(model="complete", prompt="def __init__", max_tokens=2)
    assert known.choices[0].text == "(self"  # of Python's library


def test_content_editor_streams_applicable_changes(app: Callable[[str], Running]) -> None:
    editor = app("content-editor")
    text = "We utilize it in order to to win. " + "word " * 31 + ". Prior to that, no."
    changes, events = [], []
    with httpx.Client(timeout=20) as client:
        url = f"{editor.url}/v2/models/edit/generate_stream"
        with connect_sse(client, "POST", url, json={"text": text}) as source:
            for event in source.iter_sse():
                data = json.loads(event.data)
                events.append(event.event)
                if event.event == "message":
                    changes.append(data["output"])
    pairs = [(change["old"], change["new"]) for change in changes]
    assert pairs[:3] == [("utilize", "use"), ("in order to", "to"), ("to to", "to")]
    assert pairs[-1] == ("Prior to", "Before")
    assert (events.count("progress"), events.count("long")) == (3, 1)
    wanted = [changes[0], changes[-1]]
    applied = editor.infer("apply", {"text": text, "changes": wanted}, "generate").json()["output"]
    assert applied.startswith("We use it in order to to win. ")
    assert applied.endswith("Before that, no.")
    wrong = editor.infer("apply", {"text": "other", "changes": wanted}, "generate")
    assert (wrong.status_code, wrong.json()["error"]) == (
        422,
        f"at {text.index('Prior')} stands '', not 'Prior to'",
    )


def test_tutor_asks_harder_questions_after_correct_answers(app: Callable[[str], Running]) -> None:
    url = f"{app('tutor').url}/v2/models/lesson/stream".replace("http", "ws")
    with connect(url, proxy=None) as socket:

        def send(part: str, *inputs: dict) -> None:
            socket.send(json.dumps({"id": "1", "part": part, "inputs": [*inputs]}))

        def hear() -> str:
            [output] = json.loads(socket.recv(timeout=20))["outputs"]
            return output["data"][0]

        send("first", tensor("questions", "INT64", [4]), tensor("seed", "INT64", [1]))
        sizes = []
        for right in (True, True, False, True):
            one, other = map(int, re.findall(r"\d+", hear())[1:])
            sizes.append(len(str(one)))
            send("next", tensor("answers", "INT64", [one + other if right else 0]))
            assert hear() == ("Right." if right else f"No, it is {one + other}.")
        assert sizes == [1, 2, 3, 2]
        assert hear() == "3 right."


def test_iris_classifies(examples: Running) -> None:
    flowers = [[5.1, 3.5, 1.4, 0.2], [6.3, 2.9, 5.6, 1.8]]
    answer = examples.infer("iris", {"inputs": [tensor("features", "FP64", flowers, [2, 4])]}).json()
    assert answer["outputs"][0]["data"] == [0, 2]
    assert answer["outputs"][1]["shape"] == [2, 3]
    assert answer["model_version"] == "1"


def test_model_without_code_classifies(examples: Running) -> None:
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


def test_sum_runs_over_bidirectional_stream(examples: Running) -> None:
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


def test_many_texts_share_steps(examples: Running) -> None:
    from concurrent.futures import ThreadPoolExecutor

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
