"""Models' own routes are FastAPI's, and one that FastAPI refuses is a model that did not load."""

import asyncio
import json
import logging
from pathlib import Path

import numpy as np
import pytest
from fastapi import BackgroundTasks
from fastapi.responses import FileResponse, StreamingResponse

from inferstream import MLModel, ModelSettings, custom_handler
from inferstream.errors import ModelLoadFailed
from inferstream.handlers import HttpRequest
from inferstream.server.custom import build_route_handler


class Sums(MLModel):
    @custom_handler("/sum")
    async def sum_of(self, payload: list) -> int:
        return sum(payload)

    @custom_handler("/pair")
    def pair_of(self, payload: "tuple") -> int:
        return len(payload)


def made(model: type[MLModel]) -> MLModel:
    return model(ModelSettings(implementation=model, name="m"))


@pytest.mark.parametrize(("path", "answer"), [("/sum", b"6"), ("/pair", b"3")])
async def test_list_of_any_items_is_the_body(path: str, answer: bytes) -> None:
    answering = await build_route_handler(made(Sums))
    assert answering is not None
    request = HttpRequest("POST", path, b"", [(b"content-type", b"application/json")], b"[1,2,3]")
    response = await answering(request)
    assert (response.status, response.body) == (200, answer)


class Numbers(MLModel):
    @custom_handler("/named")
    async def named(self) -> dict:
        return {
            "score": np.float32(0.5),
            "rows": [np.arange(2)],
            "missing": np.float64("nan"),
            "pair": (np.int64(1), "a"),
        }

    @custom_handler("/scalar")
    def scalar(self):  # type: ignore[no-untyped-def]
        return np.int64(3)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/named", {"score": 0.5, "rows": [[0, 1]], "missing": None, "pair": [1, "a"]}),
        ("/scalar", 3),
    ],
)
async def test_results_may_contain_numpy_values(path: str, body: object) -> None:
    answering = await build_route_handler(made(Numbers))
    assert answering is not None
    response = await answering(HttpRequest("POST", path, b"", [], b""))
    assert response.status == 200
    assert json.loads(response.body) == body


async def test_invalid_route_is_named() -> None:
    class Odd(MLModel):
        @custom_handler("/odd")
        def odd(self) -> object(): ...

    with pytest.raises(ModelLoadFailed, match="Model m did not load: route /odd is refused: "):
        await build_route_handler(made(Odd))


class Responses(MLModel):
    """Each kind of response that Starlette has."""

    allowed = asyncio.Event()
    ran: list[str]

    @custom_handler("/lines", rest_method="GET")
    async def lines(self) -> StreamingResponse:
        async def lines():
            for number in range(3):
                await asyncio.sleep(0)
                yield f"{number}\n"

        return StreamingResponse(lines(), media_type="text/plain")

    @custom_handler("/threaded", rest_method="GET")
    def threaded(self) -> StreamingResponse:
        return StreamingResponse(iter([b"a", b"b"]), media_type="text/plain")

    @custom_handler("/file", rest_method="GET")
    async def file(self) -> FileResponse:
        return FileResponse(__file__)

    @custom_handler("/failing", rest_method="GET")
    async def failing(self) -> StreamingResponse:
        async def lines():
            yield b"a"
            raise ValueError("in the middle")

        return StreamingResponse(lines())

    @custom_handler("/later")
    async def later(self, work: str, tasks: BackgroundTasks) -> str:
        async def run() -> None:
            await self.allowed.wait()
            self.ran.append(work)
            if work == "wrong":
                raise ValueError(work)

        tasks.add_task(run)
        return "accepted"


async def others_ended() -> None:
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)


async def ask(model: MLModel, method: str, path: str, body: bytes = b"", kind: bytes = b"application/json"):
    route, _, query = path.partition("?")
    handler = await build_route_handler(model)
    assert handler is not None
    request = HttpRequest(method, route, query.encode(), [(b"content-type", kind)], body)
    response = await asyncio.wait_for(handler(request), 10)
    if (rest := response.rest) is None:
        return response
    pieces = [response.body]
    while piece := await asyncio.wait_for(rest.read(), 10):
        pieces.append(piece)
    return response._replace(body=b"".join(pieces), rest=None)


@pytest.mark.parametrize(
    ("path", "body"), [("/lines", b"0\n1\n2\n"), ("/threaded", b"ab"), ("/file", Path(__file__).read_bytes())]
)
async def test_stream_and_file_are_sent_completely(path: str, body: bytes) -> None:
    response = await ask(made(Responses), "GET", path)
    assert (response.status, response.body) == (200, body)
    await others_ended()


async def test_failing_stream_is_an_error() -> None:
    with pytest.raises(ValueError, match="in the middle"):
        await ask(made(Responses), "GET", "/failing")


@pytest.mark.parametrize("work", ["right", "wrong"])
async def test_background_tasks_run_after_the_response(work: str, caplog: pytest.LogCaptureFixture) -> None:
    model = made(Responses)
    model.ran, model.allowed = [], asyncio.Event()
    response = await ask(model, "POST", f"/later?work={work}")
    assert (response.body, model.ran) == (b'"accepted"', [])
    model.allowed.set()
    with caplog.at_level(logging.ERROR):
        await others_ended()
    assert model.ran == [work]
    assert ("background task of a custom route failed" in caplog.text) == (work == "wrong")


async def test_disconnect_ends_the_route() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    class Slow(MLModel):
        @custom_handler("/slow", rest_method="GET")
        async def slow(self) -> str:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return ""

    asking = asyncio.create_task(ask(made(Slow), "GET", "/slow"))
    await asyncio.wait_for(began.wait(), 10)
    asking.cancel()
    await asyncio.wait_for(ended.wait(), 10)
