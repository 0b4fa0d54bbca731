"""Traces one inference over REST through a server in this process: the files of the package that it passes through."""

import asyncio
import http.client
import json
import logging
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import inferstream
from inferstream import App
from inferstream.server.serve_target import resolve
from inferstream.server.server import Server

PACKAGE = str(Path(inferstream.__file__).parent)
WARM = 20  # requests before the traced ones: the first ones make what later ones find
TRACED = 5  # requests; what another task does beside one of them is not in all

BODY = {"inputs": [{"name": name, "shape": [1], "datatype": "INT64", "data": [1]} for name in ("a", "b")]}

app = App()


@app.model
def add(a: int, b: int) -> int:
    return a + b


async def passed_through() -> set[str]:
    """The files in which each of the traced requests calls a function, in the thread of the event loop."""
    logging.disable(logging.WARNING)
    server = Server(*resolve(app, {"http_port": 0, "grpc_port": 0, "metrics_port": 0}))
    serving: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(server.run(lambda server: serving.set_result(server.ports["REST"])))
    try:
        return await asyncio.to_thread(_trace, await serving, asyncio.get_running_loop())
    finally:
        server.stop()
        await running


def _trace(port: int, loop: asyncio.AbstractEventLoop) -> set[str]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for _ in range(WARM):
        _ask(connection)
    traces: list[set[str]] = []
    for _ in range(TRACED):
        calls: set[str] = set()
        _in_loop(loop, lambda: sys.setprofile(_collect(calls)))  # noqa: B023  # it has run when this returns
        _ask(connection)
        _in_loop(loop, lambda: sys.setprofile(None))
        traces.append(calls)
    connection.close()
    return set.intersection(*traces)


def _collect(files: set[str]) -> Callable[[FrameType, str, object], None]:
    def profile(frame: FrameType, event: str, argument: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(PACKAGE):
            files.add(name.removeprefix(PACKAGE + "/"))

    return profile


def _in_loop(loop: asyncio.AbstractEventLoop, act: Callable[[], None]) -> None:
    done = threading.Event()
    loop.call_soon_threadsafe(act)
    loop.call_soon_threadsafe(done.set)
    done.wait()


def _ask(connection: http.client.HTTPConnection) -> None:
    connection.request("POST", "/v2/models/add/infer", json.dumps(BODY))
    response = connection.getresponse()
    assert response.status == 200, response.read()
    response.read()


if __name__ == "__main__":
    print(*sorted(asyncio.run(passed_through())), sep="\n")
