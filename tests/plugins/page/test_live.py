"""The metrics of the live view, and the limits of a key."""

import time
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from inferstream import App, Application, Settings
from inferstream.ext.calls import Peers, ServerParts
from inferstream.ext.telemetry import Meters
from inferstream.plugins.page.live import Figures, LiveMetrics, ReadFigures
from tests.asgi import Client, http, request
from tests.serving import Running, fp32, write_model

APP = App()


@APP.model
def add(a: int, b: int = 1) -> int:
    return a + b


async def get(application: Application, path: str) -> tuple[int, Any]:
    status, body = await Client(request(b"")).ask(application.asgi, http(path, b"", "GET"))
    return status, orjson.loads(body)


async def test_live_metrics_count_calls_by_model() -> None:
    async with Application(APP) as application:
        body = b'{"a": 1}'
        for _ in range(2):
            scope = http("/v2/models/add/generate", body)
            assert (await Client(request(body)).ask(application.asgi, scope))[0] == 200
        status, document = await get(application, "/page/live")
        assert status == 200
        [[server, model]] = document["processes"]
        assert server[0] == ""
        assert server[2]["resident_bytes"][0] > 1_000_000
        assert server[2]["inferstream_workers"] == [0]
        assert model[:2] == ["add", None]
        assert model[2]["inferstream_calls:success"] == [2]
        *counts, seconds = model[2]["inferstream_call_seconds"]
        assert (sum(counts), 0 < seconds < 5) == (2, True)
        assert len(document["bounds"]["inferstream_call_seconds"]) == len(counts) - 1
        assert await get(application, "/page/limits") == (200, {})


FAILING = App()


@FAILING.model
def burn(a: int) -> int:
    raise RuntimeError(f"the disk {a} is on fire")


@pytest.mark.parametrize("workers", [0, 1])
async def test_live_metrics_have_last_failure_and_error_responses(workers: int) -> None:
    settings = {"parallel_workers": workers, "allow_open_repository": True}
    async with Application(FAILING, **settings) as application:
        for model, body, expected in (
            ("burn", b'{"a": 1, "id": "call-1"}', 500),
            ("burn", b'{"a": 2, "id": "call-2"}', 500),
            ("burn", b"{}", 400),
            ("none", b"{}", 404),
        ):
            scope = http(f"/v2/models/{model}/generate", body)
            assert (await Client(request(body)).ask(application.asgi, scope))[0] == expected
        document = (await get(application, "/page/live"))[1]
        [[server, burning]] = document["processes"]
        assert (server[2]["client_errors"], server[2]["server_errors"]) == ([2], [2])
        seconds, text, raised = burning[3]
        assert abs(time.time() - seconds) < 60
        assert text == "Model burn failed on request call-2; the server's log says why."
        assert raised == "RuntimeError: the disk 2 is on fire"


async def test_exceptions_are_not_shown_to_everybody() -> None:
    async with Application(FAILING) as application:  # whose clients may be anywhere
        body = b'{"a": 1, "id": "call"}'
        scope = http("/v2/models/burn/generate", body)
        assert (await Client(request(body)).ask(application.asgi, scope))[0] == 500
        [[_, burning]] = (await get(application, "/page/live"))[1]["processes"]
        assert burning[3][1:] == ["Model burn failed on request call; the server's log says why.", None]


@pytest.mark.parametrize("settings", [{"metrics_endpoint": ""}, {"page": False}])
async def test_live_metrics_need_metrics_and_page(settings: dict[str, Any]) -> None:
    async with Application(APP, **settings) as application:
        assert (await get(application, "/page/live"))[0] == 404


class Nothing:
    """A registry without models."""

    def items(self) -> list[object]:
        return []


async def test_live_metrics_have_all_front_ends() -> None:
    other = [Figures("add", "1", {"inferstream_calls:success": [3]})]

    async def ask(front_end: int, question: ReadFigures) -> list[Figures]:
        return other

    models: Any = Nothing()
    live = LiveMetrics(ServerParts(Settings(), Meters(), models, Peers(0, 2, ask)))
    [[own], found] = await live.read()
    assert own.model == ""
    assert found == other


KINDS = """
import inferstream


class Single(inferstream.MLModel):
    async def predict(self, payload):
        raise ValueError("single is broken")


class Blocking(inferstream.MLModel):
    def predict(self, payload):
        raise ValueError("blocking is broken")


class Stream(inferstream.MLModel):
    async def predict_stream(self, payloads):
        async for payload in payloads:
            yield "one"
            raise ValueError("stream is broken")


class Steps(inferstream.StepModel):
    def admit(self, request):
        return request

    def step(self, states):
        raise ValueError("steps is broken")
"""


def test_exception_of_each_kind_of_model_is_shown(workers: int, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    names = ("single", "blocking", "stream", "steps", "batched")
    for name in names:
        batch = {"max_batch_size": 2, "max_batch_time": 0.001} if name == "batched" else {}
        kind = "Blocking" if name == "batched" else name.title()
        write_model(folder, name, f"kinds.{kind}", KINDS, name=name, **batch)
    running = Running(folder, INFERSTREAM_PARALLEL_WORKERS=str(workers))
    try:
        for name in names:
            action = "infer_stream" if name in ("stream", "steps") else "infer"
            running.infer(name, fp32([1.0]), action)
        [process] = httpx.get(f"{running.url}/page/live").json()["processes"]
        raised = {name: failure[2] for name, _, _, failure in process if failure}
        expected = {name: f"ValueError: {name} is broken" for name in names[:-1]}
        assert raised == {**expected, "batched": "ValueError: blocking is broken"}
    finally:
        assert running.stop() == 0, running.text()
