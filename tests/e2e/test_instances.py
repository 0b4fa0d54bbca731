"""Payloads of `/invocations` and KServe V1 for each kind of model, in the server and in a worker: the answer or a 400."""

import base64
import io
import json
from collections.abc import Iterator

import httpx
import pytest

from tests.serving import Running, eventually, write_model

joblib = pytest.importorskip("joblib")
pd = pytest.importorskip("pandas")
PIL = pytest.importorskip("PIL.Image")

CODE = """
from dataclasses import dataclass
from typing import Any

from PIL import Image

from inferstream import Finished, MLModel, StepModel
from inferstream.codecs import NumpyRequestCodec, StringCodec
from inferstream.types import InferenceResponse


@dataclass
class Note:
    title: str
    body: bytes


def shout(prompt: str) -> str:
    return prompt.upper()


def size(data: bytes) -> int:
    return len(data)


def total(data: list[bytes]) -> int:
    return sum(map(len, data))


def note(x: Note) -> str:
    return f"{x.title}:{len(x.body)}"


def anything(x: Any) -> Any:
    return x


def picture(image: Image.Image) -> int:
    return image.width


def shown(features) -> str:
    if hasattr(features, "columns"):
        return f"frame {features.to_dict('list')}"
    return f"array {features.tolist()}"


class Decoding(MLModel):
    def predict(self, payload):
        text = shown(self.decode_request(payload, default_codec=NumpyRequestCodec))
        return InferenceResponse(model_name=self.name, outputs=[StringCodec.encode_output("y", [text])])


class Steps(StepModel):
    def admit(self, request):
        text = " ".join(f"{tensor.name}={list(tensor.data)}" for tensor in request.inputs)
        return InferenceResponse(model_name=self.name, outputs=[StringCodec.encode_output("y", [text])])

    def step(self, states):
        return [Finished(state) for state in states]
"""

FUNCTIONS = ("shout", "size", "total", "note", "anything", "picture")
FRAME = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [3.0, 1.0, 2.0]})


def encoded(data: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(data).decode()}


def drawn() -> bytes:
    file = io.BytesIO()
    PIL.new("RGB", (3, 2)).save(file, "PNG")
    return file.getvalue()


HI, PICTURE = encoded(b"hi"), encoded(drawn())
SPLIT = {"dataframe_split": {"columns": ["a", "b"], "data": [[1, 3], [2, 1]]}}
RECORDS = {"dataframe_records": [{"a": 1, "b": 3}, {"a": 2, "b": 1}]}


@pytest.fixture(scope="module", params=[0, 1], ids=["in the server", "in a worker"])
def served(request, tmp_path_factory) -> Iterator[Running]:
    linear = pytest.importorskip("sklearn.linear_model")
    folder = tmp_path_factory.mktemp("instances") / "models"
    for name in (*FUNCTIONS, "Decoding", "Steps"):
        write_model(folder, name, f"{name.lower()}_code.{name}", CODE, name=name)
    target = FRAME["a"] * 2 + FRAME["b"]
    for name, rows in (("plain", FRAME.to_numpy()), ("named", FRAME)):
        (folder / name).mkdir()
        joblib.dump(linear.LinearRegression().fit(rows, target), folder / name / "model.joblib")
        settings = {"name": name, "implementation": "inferstream.plugins.frameworks.sklearn.SKLearnModel"}
        (folder / name / "model-settings.json").write_text(json.dumps(settings))
    running = Running(folder, within=120, INFERSTREAM_PARALLEL_WORKERS=str(request.param))
    try:
        eventually(lambda: httpx.get(f"{running.url}/v2/health/ready").status_code == 200, 60)
        yield running
    finally:
        running.stop()


@pytest.mark.parametrize(
    ("model", "body", "answer"),
    [
        ("size", {"instances": [HI, {"data": HI}]}, [2, 2]),
        ("size", {"inputs": {"data": HI}}, [2]),
        ("size", {"instances": [{"b64": "%"}]}, '"b64" must be a string in base64'),
        ("total", {"instances": [{"data": [HI, HI]}, [HI]]}, [4, 2]),
        ("note", {"instances": [{"x": {"title": "a", "body": HI}}]}, ["a:2"]),
        ("note", {"dataframe_records": [{"x": {"title": "a", "body": "aGk="}}]}, ["a:2"]),
        ("anything", {"instances": [{"x": {"deep": [HI]}}]}, [{"deep": ["aGk="]}]),
        ("picture", {"instances": [PICTURE, {"image": PICTURE}]}, [3, 3]),
        ("picture", {"instances": [HI]}, 'argument "image"'),
        ("shout", {"instances": ["a", HI, {"prompt": "b"}]}, ["A", "HI", "B"]),
        ("shout", {"instances": [encoded(b"\xff")]}, 'argument "prompt": not UTF-8 text'),
        ("shout", {"instances": [1]}, 'argument "prompt" takes text, got 1'),
        ("Decoding", {"instances": [[1, 2]]}, ["array [[1, 2]]"]),
        ("Decoding", SPLIT, ["frame {'a': [1, 2], 'b': [3, 1]}"]),
        ("Decoding", RECORDS, ["frame {'a': [1, 2], 'b': [3, 1]}"]),
        ("Decoding", {"dataframe_split": {"columns": ["a"], "data": [[1], [None]]}}, ["frame {'a': [1.0, nan]}"]),
        ("Decoding", {"dataframe_split": {"data": [[1, 2]]}}, ["array [[1, 2]]"]),
        ("Decoding", {"inputs": {"a": [1], "b": [2]}}, 'The "np" codec takes requests with a single input'),
        ("Decoding", {"inputs": {"a": [1], "b": [2]}, "parameters": {"content_type": "pd"}},
         ["frame {'a': [1], 'b': [2]}"]),
        ("Steps", SPLIT, ["a=[1, 2] b=[3, 1]"]),
        ("Steps", {"instances": [HI, HI]}, ["input-0=[b'hi', b'hi']"]),
        ("plain", SPLIT, [5.0, 5.0]),
        ("plain", RECORDS, [5.0, 5.0]),
        ("plain", {"dataframe_records": [{"a": 1, "b": "x"}]}, 'inputs "a", "b": could not convert'),
        ("named", SPLIT, [5.0, 5.0]),
        ("named", {"dataframe_records": [{"b": 3, "a": 1}]}, [5.0]),
        ("named", {"dataframe_records": [{"a": 1, "c": 3}]}, 'column "c" is not one of the model\'s: a, b'),
    ],
    ids=str,
)  # fmt: skip
def test_each_payload(served: Running, model: str, body: dict, answer: list | str) -> None:
    response = httpx.post(f"{served.url}/v1/models/{model}:predict", json=body, timeout=20)
    if isinstance(answer, str):
        assert (response.status_code, response.json()["error"][: len(answer)]) == (400, answer)
    else:
        assert response.status_code == 200, response.text
        is_number = model in ("plain", "named")
        assert response.json()["predictions"] == (pytest.approx(answer) if is_number else answer)


@pytest.mark.parametrize(
    "long", [[123456] * 10_000, [2**64 + 1, *[1] * 20_000]], ids=["int64", "beyond int64"]
)
def test_long_lists_reach_a_function_unchanged(served: Running, long: list[int]) -> None:
    deep = {"deep": {"er": long}}
    body = {"instances": [{"x": long}, {"x": deep}]}
    response = httpx.post(f"{served.url}/v1/models/anything:predict", json=body, timeout=20)
    assert response.json() == {"predictions": [long, deep]}
    for value in (long, deep):
        response = httpx.post(f"{served.url}/v2/models/anything/generate", json={"x": value}, timeout=20)
        assert response.json()["output"] == value


@pytest.mark.parametrize(
    ("media_type", "body", "said"),
    [
        ("image/png", b"\x89PNG", "content-type: image/png is not read here; send JSON"),
        ("text/x-libsvm", b"1 2:3", "content-type: text/x-libsvm is not read here; send JSON"),
        ("application/jsonlines", b'{"a": 1}\n{"a": 2}', "content-type: application/jsonlines is not read"),
        ("application/json", b"a,b\n1,2", "The body is not valid JSON"),
        ("application/x-www-form-urlencoded", b'{"instances": [1', "The body is not valid JSON"),
        ("", b"", "The body is empty; hint: send a JSON object"),
    ],
)
def test_invalid_json_bodies(served: Running, media_type: str, body: bytes, said: str) -> None:
    headers = {"content-type": media_type} if media_type else {}
    response = httpx.post(f"{served.url}/v1/models/Decoding:predict", content=body, headers=headers)
    assert (response.status_code, response.json()["error"][: len(said)]) == (400, said)
