"""Which servers the corpus is asked of, what it asks them, and the files that hold what they answered."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from tests.serving import Running

from . import http, rpc, websocket
from .folder import write_folder, write_later
from .requests import (
    connections,
    grpc_web,
    inference,
    jsonrpc,
    mcp,
    metrics,
    profiles,
    resources,
    streams,
    texts,
)
from .requests import grpc as grpc_requests
from .requests import websocket as websocket_requests

RESPONSES = Path(__file__).with_name("responses")

Case = http.Http | websocket.Socket | rpc.Rpc
Responses = dict[str, Any]

FACES: dict[str, Sequence[Case]] = {
    "inference": inference.CASES,
    "streams": streams.CASES,
    "connections": connections.CASES,
    "websocket": websocket_requests.CASES,
    "grpc": grpc_requests.CASES,
    "grpc-web": grpc_web.CASES,
    "resources": resources.CASES,
    "texts": texts.CASES,
    "jsonrpc": jsonrpc.CASES,
    "mcp": mcp.CASES,
    "metrics": metrics.CASES,
    "profiles": profiles.CASES,
}


WAITING = ("too slow", "impatient", "deadline", "timeout parameter")
"""Words in the names of cases that are about time, so that they take some."""


class Setup(NamedTuple):
    """A server, what it is asked, and where its answers are."""

    settings: dict[str, Any]
    faces: dict[str, str]
    """The faces to ask, in turn, with the names of their files."""
    without: tuple[str, ...] = ()
    """Words in the names of cases that this server is not asked: what it answers may vary."""

    def cases(self, face: str) -> list[Case]:
        return [case for case in FACES[face] if not any(word in case.name for word in self.without)]


PAGES = {"allow_origins": ["http://page"], "allow_methods": ["POST"], "allow_headers": ["content-type"]}
EVERYTHING = (
    "inference",
    "streams",
    "connections",
    "websocket",
    "grpc",
    "grpc-web",
    "resources",
    "texts",
    "jsonrpc",
    "mcp",
)

SETUPS = {
    "in-process": Setup({}, {**{face: face for face in EVERYTHING}, "metrics": "metrics"}),
    "workers": Setup(
        {"parallel_workers": 2}, {**{face: face for face in EVERYTHING}, "metrics": "metrics-workers"}
    ),
    # Each front end has a cache and a queue of its own, and connections come to either; several have no sequences.
    "frontends": Setup(
        {"frontends": 2},
        {face: face for face in EVERYTHING},
        ("cached", "queue full", "server metadata", "ServerMetadata"),
    ),
    "profile-mlserver": Setup(
        {"status_profile": "mlserver", "cloudevents_headers": True, "root_path": "/behind"},
        {"profiles": "profile-mlserver"},
    ),
    "profile-triton": Setup(
        {"status_profile": "triton", "grpc_stream_dialect": "triton", "cors_settings": PAGES},
        {"profiles": "profile-triton"},
    ),
}


def ask(setup: Setup, folder: Path) -> dict[str, Responses]:
    """Start a server, send it everything, and return what it answered by the names of the files."""
    server = Running(write_folder(folder, **setup.settings))
    try:
        write_later(folder)
        with grpc.insecure_channel(server.grpc) as channel:
            return _ask_all(setup, server, channel)
    finally:
        status = server.stop()
        assert status == 0, server.text()


def _ask_all(setup: Setup, server: Running, channel: grpc.Channel) -> dict[str, Responses]:
    """One case after another, but for those that wait, which wait together."""
    found: dict[str, Responses] = {}
    waiting = {}
    failed = 0
    with ThreadPoolExecutor(64) as pool:
        for face, file in setup.faces.items():
            found[file] = {}
            if face == "metrics":
                wait(waiting.values())
            for case in setup.cases(face):
                if any(word in case.name for word in WAITING):
                    waiting[file, case.name] = pool.submit(_ask, case, server, channel)
                    found[file][case.name] = None
                else:
                    response = found[file][case.name] = _ask(case, server, channel)
                    failed += FAILED in response
                    assert failed < 5, f'"{case.name}" and four others are not answered: {response}'
        for (file, name), response in waiting.items():
            found[file][name] = response.result()
    return found


FAILED = "not answered"
"""Stands for the response of a case that could not be read."""


def _ask(case: Case, server: Running, channel: grpc.Channel) -> Any:
    try:
        if isinstance(case, http.Http):
            return http.run(case, server.metrics_port if case.metrics_port else server.http_port)
        if isinstance(case, websocket.Socket):
            return websocket.run(case, server.http_port)
        return rpc.run(case, channel)
    except Exception as error:  # for the test to show, beside whatever else differs
        return {FAILED: repr(error)}


def read(file: str) -> Responses:
    return json.loads((RESPONSES / f"{file}.json").read_text())


def write(file: str, responses: Responses) -> None:
    failed = {name: response for name, response in responses.items() if FAILED in response}
    if failed:
        raise SystemExit(f"{file}: {failed}")
    (RESPONSES / f"{file}.json").write_text(json.dumps(responses, indent=1) + "\n")
