"""Calls without a version that are split between versions, and shadows that no caller notices."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
import openai
import pytest
import tritonclient.grpc as triton

from tests.serving import Running, eventually, metric, write_model

CODE = """
import asyncio
import os
from collections.abc import AsyncIterator

from inferstream import MLModel
from inferstream.codecs import decode_args


class Echo(MLModel):
    @decode_args
    async def predict(self, prompt: list[str]) -> list[str]:
        return [text + await self.behave(text) for text in prompt]

    @decode_args
    async def predict_stream(self, prompt: list[str]) -> AsyncIterator[list[str]]:
        yield prompt
        yield [await self.behave(prompt[0])]

    async def behave(self, text: str) -> str:
        if self.version == "2":
            if text == "hang":
                await asyncio.Event().wait()
            if text == "raise":
                raise ValueError("the shadow cannot")
            if text == "die":
                os._exit(3)
            if text == "differ":
                return "?"
        return "!"
"""


def write(root: Path, version: str, **settings: object) -> None:
    parameters = {"version": version}
    write_model(root, f"echo/{version}", "models.Echo", CODE, name="echo", parameters=parameters, **settings)


def ask(url: str, text: str, timeout: float = 10, **headers: str) -> dict:
    tensor = {"name": "prompt", "shape": [1], "datatype": "BYTES", "data": [text]}
    body = {"inputs": [tensor]}
    answer = httpx.post(f"{url}/v2/models/echo/infer", json=body, headers=headers, timeout=timeout)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("split") / "models"
    write(root, "1")
    write(root, "2", split={"versions": {"1": 50, "2": 50}, "by": "x-user"})
    running = Running(root)
    yield running
    assert running.stop() == 0


def by_rest(served: Running, user: str) -> str:
    return ask(served.url, "hi", **{"x-user": user})["model_version"]


def by_grpc(served: Running, user: str) -> str:
    with triton.InferenceServerClient(served.grpc) as client:
        prompt = triton.InferInput("prompt", [1], "BYTES")
        prompt.set_data_from_numpy(np.array([b"hi"], dtype=object))
        return client.infer("echo", [prompt], headers={"x-user": user}).get_response().model_version


def by_stream(served: Running, user: str) -> str:
    answer = httpx.post(
        f"{served.url}/v2/models/echo/generate_stream", json={"prompt": "hi"}, headers={"x-user": user}
    )
    versions = set(Counter(part.split('"')[1] for part in answer.text.split('"model_version":')[1:]))
    [version] = versions
    return version


def by_openai(served: Running, user: str) -> str:
    client = openai.OpenAI(base_url=f"{served.url}/v1", api_key="none")
    raw = client.completions.with_raw_response.create(
        model="echo", prompt="raise", extra_headers={"x-user": user, "x-request-id": user}
    )
    return "1" if raw.parse().choices[0].text == "raise!" else "2"


USERS = [f"user-{number}" for number in range(12)]


def test_user_keeps_version_over_every_protocol(split: Running) -> None:
    expected = [by_rest(split, user) for user in USERS]
    assert set(expected) == {"1", "2"}
    for way in (by_rest, by_grpc, by_stream):
        assert [way(split, user) for user in USERS] == expected


def test_requested_version_is_used(split: Running) -> None:
    for version in ("1", "2"):
        tensor = {"name": "prompt", "shape": [1], "datatype": "BYTES", "data": ["hi"]}
        url = f"{split.url}/v2/models/echo/versions/{version}/infer"
        for _ in range(5):
            assert httpx.post(url, json={"inputs": [tensor]}).json()["model_version"] == version


def test_anonymous_callers_get_both_versions(split: Running) -> None:
    assert {ask(split.url, "hi")["model_version"] for _ in range(60)} == {"1", "2"}


def test_unloaded_version_gets_no_traffic_and_no_call_is_lost(tmp_path: Path) -> None:
    root = tmp_path / "models"
    write(root, "1")
    write(root, "2", split={"1": 50, "2": 50})
    running = Running(root)
    try:
        (root / "echo" / "1" / "model-settings.json").unlink()
        assert httpx.post(f"{running.url}/v2/repository/models/echo/load").status_code == 200
        assert {ask(running.url, "hi")["model_version"] for _ in range(30)} == {"2"}
    finally:
        assert running.stop() == 0


def shadow_of(root: Path, **settings: object) -> Running:
    write(root, "1", shadow={"to": "2"})
    write(root, "2", split={"1": 100}, **settings)
    return Running(root)


def copies(served: Running, result: str) -> Callable[[], bool]:
    def counted() -> bool:
        page = httpx.get(f"{served.url}/metrics").text
        return metric(page, "inferstream_shadow_calls_total", result=result, version="1") == 1

    return counted


@pytest.fixture
def shadowed(tmp_path: Path) -> Iterator[Running]:
    running = shadow_of(tmp_path / "models", parallel_workers=1)
    yield running
    assert running.stop() == 0, running.text()


@pytest.mark.parametrize(
    ("text", "result"), [("hi", "equal"), ("differ", "different"), ("raise", "failed"), ("die", "failed")]
)
def test_shadow_is_counted_and_invisible_to_callers(shadowed: Running, text: str, result: str) -> None:
    answer = ask(shadowed.url, text)
    assert (answer["model_version"], answer["outputs"][0]["data"]) == ("1", [f"{text}!"])
    eventually(copies(shadowed, result), 20)


def test_streams_are_shadowed(shadowed: Running) -> None:
    events = httpx.post(f"{shadowed.url}/v2/models/echo/generate_stream", json={"prompt": "differ"}).text
    assert "differ" in events
    eventually(copies(shadowed, "different"), 20)
    eventually(lambda: 'output "output-0": the texts differ' in shadowed.text(), 20)


def test_hanging_shadow_blocks_neither_callers_nor_shutdown(tmp_path: Path) -> None:
    running = shadow_of(tmp_path / "models")
    try:
        for _ in range(12):
            assert ask(running.url, "hang")["outputs"][0]["data"] == ["hang!"]
        page = httpx.get(f"{running.url}/metrics").text
        assert metric(page, "inferstream_shadow_calls_total", result="dropped", version="1") == 4
    finally:
        ended = running.stop()
    assert ended == 0, running.text()


def test_shadow_of_same_version_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "models"
    write(root, "1", shadow={"to": "1"})
    running = Running(root)
    try:
        assert "shadow.to is 1, the version of the model itself" in running.text()
    finally:
        running.stop()
