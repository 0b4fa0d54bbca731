"""Custom routes over HTTP/1 and HTTP/2, of models in the server and in workers: each kind of Starlette's responses."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import closing

import httpx
import pytest

from tests.serving import Running, eventually, write_model

MODEL = """
import asyncio
import os
import threading

from fastapi import BackgroundTasks, Request
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse, Response, StreamingResponse

from inferstream import MLModel, custom_handler


def note(line):
    with open(os.environ["TEST_LOG"], "a") as log:
        log.write(line + "\\n")


class Routes(MLModel):
    async def load(self) -> bool:
        self.released = asyncio.Event()
        self.opened = threading.Event()
        return True

    @custom_handler("/own/release")
    async def release(self) -> None:
        self.released.set()
        self.opened.set()

    @custom_handler("/own/paced", rest_method="GET")
    async def paced(self) -> StreamingResponse:
        self.released.clear()

        async def items():
            yield "data: first\\n\\n"
            await self.released.wait()
            yield "data: second\\n\\n"

        return StreamingResponse(items(), media_type="text/event-stream")

    @custom_handler("/own/threaded", rest_method="GET")
    def threaded(self) -> StreamingResponse:
        self.opened.clear()

        def items():
            yield b"first\\n"
            self.opened.wait(20)
            yield b""
            yield b"second\\n"

        return StreamingResponse(items(), status_code=206)

    @custom_handler("/own/silent", rest_method="GET")
    async def silent(self) -> StreamingResponse:
        async def items():
            try:
                yield b"first\\n"
                await asyncio.Event().wait()
            finally:
                note("silent closed")

        return StreamingResponse(items())

    @custom_handler("/own/endless", rest_method="GET")
    async def endless(self) -> StreamingResponse:
        async def items():
            sent = 0
            try:
                while True:
                    yield bytes(65536)
                    sent += 1
            finally:
                note(f"endless closed after {sent}")

        return StreamingResponse(items())

    @custom_handler("/own/breaking", rest_method="GET")
    async def breaking(self) -> StreamingResponse:
        async def items():
            yield b"first\\n"
            await asyncio.sleep(0.05)
            raise ValueError("in the middle")

        return StreamingResponse(items())

    @custom_handler("/own/failing", rest_method="GET")
    async def failing(self) -> str:
        raise ValueError("at once")

    @custom_handler("/own/polling", rest_method="GET")
    async def polling(self, request: Request) -> str:
        polls = 0
        while not await request.is_disconnected():
            polls += 1
            if polls == 3:
                note("polling begins")
            await asyncio.sleep(0.01)
        note("polling saw it")
        return ""

    @custom_handler("/own/waiting", rest_method="GET")
    async def waiting(self) -> str:
        note("waiting begins")
        try:
            await asyncio.Event().wait()
        finally:
            note("waiting closed")

    @custom_handler("/own/file", rest_method="GET")
    async def file(self) -> FileResponse:
        return FileResponse(__file__, filename="model.py")

    @custom_handler("/own/later")
    async def later(self, tasks: BackgroundTasks) -> JSONResponse:
        self.released.clear()

        async def work():
            await self.released.wait()
            note("later done")

        tasks.add_task(work)
        return {"accepted": True}

    @custom_handler("/own/doomed", rest_method="GET")
    async def doomed(self, tasks: BackgroundTasks) -> dict:
        async def work():
            raise BaseException("too late")

        tasks.add_task(work)
        return {"accepted": True}

    @custom_handler("/own/cookies", rest_method="GET")
    async def cookies(self) -> Response:
        response = JSONResponse({"a": 1}, 201, media_type="application/problem+json")
        response.set_cookie("a", "1")
        response.set_cookie("b", "2")
        return response

    @custom_handler("/own/elsewhere", rest_method="GET")
    async def elsewhere(self) -> RedirectResponse:
        return RedirectResponse("/own/file")

    @custom_handler("/own/nothing", rest_method="DELETE")
    async def nothing(self) -> Response:
        return Response(status_code=204)

    @custom_handler("/own/slashed/")
    async def asked(self, request: Request) -> dict:
        pieces = [piece async for piece in request.stream()]
        return {
            "size": len(b"".join(pieces)), "type": request.headers.get("content-type"), "query": dict(request.query_params),
            "cookies": request.cookies, "client": request.client.host, "path": request.url.path, "method": request.method,
        }
"""


@pytest.fixture(scope="module", params=["loop", "thread", "worker"])
def served(request, tmp_path_factory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp(request.param) / "models"
    more = {"loop": "own"} if request.param == "thread" else {}
    write_model(folder, "routes", "routes.Routes", MODEL, name="routes", **more)
    settings = {"parallel_workers": int(request.param == "worker"), "max_body_bytes": 100_000}
    (folder / "settings.json").write_text(json.dumps(settings))
    running = Running(folder, "--one-port")
    yield running
    running.stop()


@pytest.fixture(params=["HTTP/1", "HTTP/2"])
def client(request, served: Running) -> Iterator[httpx.Client]:
    both = {"http1": request.param == "HTTP/1", "http2": request.param == "HTTP/2"}
    with httpx.Client(base_url=served.url, timeout=20, **both) as client:
        yield client


def noted(served: Running, line: str, times: int = 1) -> Callable[[], bool]:
    return lambda: sum(found.startswith(line) for found in served.log.read_text().splitlines()) >= times


def count(served: Running, line: str) -> int:
    return sum(found.startswith(line) for found in served.log.read_text().splitlines())


@pytest.mark.parametrize(
    ("path", "status", "first", "second"),
    [
        ("/own/paced", 200, b"data: first\n\n", b"data: second\n\n"),
        ("/own/threaded", 206, b"first\n", b"second\n"),
    ],
)
def test_stream_is_sent_immediately(client, path: str, status: int, first: bytes, second: bytes) -> None:
    with client.stream("GET", path) as response:
        assert response.status_code == status
        pieces = response.iter_bytes()
        assert next(pieces) == first
        assert httpx.post(f"{client.base_url}/own/release").status_code == 200
        assert b"".join(pieces) == second


def test_disconnect_ends_silent_stream(served: Running, client) -> None:
    before = count(served, "silent closed")
    with client.stream("GET", "/own/silent") as response:
        assert next(response.iter_bytes()) == b"first\n"
    client.close()
    eventually(noted(served, "silent closed", before + 1))


def test_stream_applies_backpressure(served: Running, client) -> None:
    before = count(served, "endless closed")
    with client.stream("GET", "/own/endless") as response:
        next(response.iter_bytes())
    client.close()
    eventually(noted(served, "endless closed", before + 1))
    last = [line for line in served.log.read_text().splitlines() if line.startswith("endless closed")][-1]
    assert int(last.split()[-1]) < 1000


def test_failing_stream_is_truncated_and_logged_once(served: Running, client) -> None:
    before = served.text().count("ValueError: in the middle")
    received = []
    with pytest.raises(httpx.RemoteProtocolError), client.stream("GET", "/own/breaking") as response:
        received += response.iter_bytes()
    assert received == [b"first\n"]
    eventually(lambda: served.text().count("ValueError: in the middle") > before)
    assert client.get("/own/failing").status_code == 500
    assert served.text().count("ValueError: in the middle") == before + 1
    assert "ASGI application" not in served.text()


@pytest.mark.parametrize(("path", "end"), [("polling", "polling saw it"), ("waiting", "waiting closed")])
def test_disconnect_before_response_is_detected(served: Running, client, path: str, end: str) -> None:
    began, ended = count(served, f"{path} begins"), count(served, end)
    with closing(socket.create_connection(("127.0.0.1", served.http_port), 20)) as raw:
        raw.sendall(f"GET /own/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        eventually(noted(served, f"{path} begins", began + 1))
    eventually(noted(served, end, ended + 1))


def test_files_support_ranges_and_head(client) -> None:
    whole = client.get("/own/file")
    assert (whole.status_code, whole.content) == (200, MODEL.encode())
    assert whole.headers["etag"]
    assert int(whole.headers["content-length"]) == len(MODEL)
    assert "attachment" in whole.headers["content-disposition"]
    part = client.get("/own/file", headers={"range": "bytes=1-10"})
    assert (part.status_code, part.content) == (206, MODEL.encode()[1:11])
    assert client.get("/own/file", headers={"range": f"bytes={len(MODEL)}-"}).status_code == 416
    head = client.head("/own/file")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == whole.headers["content-length"]
    assert client.head("/own/cookies").status_code == 201


def test_background_tasks_run_after_the_response(served: Running, client) -> None:
    before = count(served, "later done")
    assert client.post("/own/later").json() == {"accepted": True}
    assert count(served, "later done") == before
    client.post("/own/release")
    eventually(noted(served, "later done", before + 1))


def test_failing_background_task_keeps_response(served: Running, client) -> None:
    before = served.text().count("BaseException: too late")
    answer = client.get("/own/doomed")
    assert (answer.status_code, answer.json()) == (200, {"accepted": True})
    eventually(lambda: served.text().count("BaseException: too late") == before + 1)


def test_headers_are_unchanged(client) -> None:
    response = client.get("/own/cookies")
    assert (response.status_code, response.json()) == (201, {"a": 1})
    assert response.headers["content-type"] == "application/problem+json"
    assert [each.partition(";")[0] for each in response.headers.get_list("set-cookie")] == ["a=1", "b=2"]
    assert client.get("/own/elsewhere").headers["location"] == "/own/file"
    nothing = client.delete("/own/nothing")
    assert (nothing.status_code, nothing.content) == (204, b"")
    assert "content-length" not in nothing.headers


FORM = b'--xx\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhello\r\n--xx--\r\n'


@pytest.mark.parametrize("path", ["/own/slashed", "/own/slashed/", "/own/slashed//"])
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (FORM, "multipart/form-data; boundary=xx"),
        (bytes(90_000), "application/octet-stream"),
        (b"", "text/plain; charset=utf-8"),
    ],
)
def test_route_reads_request(client, path: str, body: bytes, kind: str) -> None:
    headers = {"content-type": kind, "cookie": "a=1; b=2"}
    response = client.post(f"{path}?x=1&y=%20", content=body, headers=headers)
    assert response.json() == {
        "size": len(body),
        "type": kind,
        "query": {"x": "1", "y": " "},
        "cookies": {"a": "1", "b": "2"},
        "client": "127.0.0.1",
        "path": "/own/slashed",
        "method": "POST",
    }


def test_chunked_body_is_bounded(client) -> None:
    headers = {"expect": "100-continue"}
    assert client.post("/own/slashed", content=iter([b"ab", b"c"]), headers=headers).json()["size"] == 3
    assert client.post("/own/slashed", content=iter([bytes(60_000)] * 2)).status_code == 413


def test_other_method_is_refused_with_allow_header(client) -> None:
    for method in ("OPTIONS", "PUT", "HEAD"):
        refused = client.request(method, "/own/slashed/")
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
