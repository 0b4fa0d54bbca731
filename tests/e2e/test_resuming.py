"""Event streams that are cut anywhere and resumed: nothing is lost, nothing comes twice, the model runs once."""

import asyncio
import json
import re
import shutil
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from inferstream import AsyncClient, Client
from inferstream.errors import CallFailed
from tests.serving import Running, eventually

APP = Path(__file__).parents[1] / "held_app.py"

HOSTS = {
    "in-process": {},
    "workers": {"parallel_workers": 2},
    "front-ends": {"frontends": 3},
    "front-ends-workers": {"frontends": 2, "parallel_workers": 2},
}

RESUMABLE = {"prefer": "resumable"}
keys = count(1)


def serve(folder: Path, **server: object) -> Running:
    folder.mkdir(parents=True)
    shutil.copy(APP, folder / "app.py")
    (folder / "settings.json").write_text(json.dumps(server))
    return Running(folder)


@pytest.fixture(scope="module", params=HOSTS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = serve(tmp_path_factory.mktemp("held") / "app", access_log=True, **HOSTS[request.param])
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def start(**settings: object) -> Running:
        started.append(serve(tmp_path / "app", **settings))
        return started[-1]

    yield start
    for running in started:
        assert running.stop() == 0, running.text()


class Connection:
    """One connection of a stream over a socket of its own, which may be cut after any byte."""

    def __init__(self, running: Running, path: str, body: bytes | None = None, **headers: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", running.http_port), timeout=20)
        lines = [
            f"{'GET' if body is None else 'POST'} {path} HTTP/1.1",
            "host: 127.0.0.1",
            "connection: close",
        ]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if body is not None:
            lines.append(f"content-length: {len(body)}")
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode() + (body or b""))
        self._raw = b""

    def read(self, most: int | None = None) -> bool:
        """Read until the end, or until there are so many bytes; whether it is the end."""
        while most is None or len(self._raw) < most:
            piece = self._socket.recv(65536 if most is None else most - len(self._raw))
            if not piece:
                return True
            self._raw += piece
        return False

    def cut(self, how: str) -> None:
        if how == "reset":
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if how != "held":  # a client in a network that is gone says nothing
            self._socket.close()

    def __del__(self) -> None:
        self._socket.close()

    @property
    def status(self) -> int:
        return int(self._raw[9:12] or b"0")

    @property
    def events(self) -> list[dict[str, str]]:
        """The events that are complete."""
        _, _, body = self._raw.partition(b"\r\n\r\n")
        text = b""
        while body:
            size, found, rest = body.partition(b"\r\n")
            if not found or not size:
                break
            length = int(size, 16)
            text += rest[:length]
            body = rest[length + 2 :]
        blocks = text.split(b"\n\n")[:-1]
        return [dict(line.split(": ", 1) for line in block.decode().split("\n")) for block in blocks]


def asked(**arguments: object) -> bytes:
    return json.dumps(arguments).encode()


def numbers(events: list[dict[str, str]]) -> list[int]:
    return [
        json.loads(event["data"])["output"] for event in events if "data" in event and "event" not in event
    ]


def resumed(
    running: Running,
    cuts: list[tuple[int, str]],
    key: str,
    path: str = "count/generate_stream",
    **arguments: object,
) -> list[dict[str, str]]:
    """All events of one stream whose connection is cut at each of these places."""
    path = f"/v2/models/{path}"
    connection = Connection(running, path, asked(key=key, **arguments), prefer="resumable")
    events: list[dict[str, str]] = []
    held: list[Connection] = []
    for place, how in cuts:
        # The head of the first connection names the stream; without it there is nothing to resume.
        if not events:
            while not any("id" in event for event in connection.events):
                assert not connection.read(len(connection._raw) + 1)
        ended = connection.read(len(connection._raw) + place)
        connection.cut(how)
        held.append(connection)
        events += connection.events
        if ended and connection.status == 204:
            return events
        last = next(event["id"] for event in reversed(events) if "id" in event)
        connection = Connection(running, path, last_event_id=last)
    connection.read()
    return events + connection.events


CUTS = st.lists(
    st.tuples(st.integers(0, 3000), st.sampled_from(["reset", "close", "held"])), min_size=1, max_size=5
)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(cuts=CUTS, every=st.sampled_from([1, 10, 1000]))
@example(cuts=[(0, "reset"), (1, "close"), (170, "held"), (5, "reset"), (2999, "reset")], every=7)
@example(cuts=[(10**6, "close")] * 2, every=1000)
def test_resume_loses_or_repeats_no_token(server: Running, cuts: list[tuple[int, str]], every: int) -> None:
    key = f"cut-{next(keys)}"
    events = resumed(server, cuts, key, until=150, pause=0.002, every=every)
    assert numbers(events) == list(range(150))
    assert [event["event"] for event in events if "event" in event] == ["end"]
    lines = server.log.read_text().splitlines()
    assert lines.count(f"begun {key}") == lines.count(f"completed {key}") == 1


def test_v2_and_blocking_models_resume(server: Running) -> None:
    key = f"v2-{next(keys)}"
    request = {
        "id": "7",
        "inputs": [
            {"name": "key", "datatype": "BYTES", "shape": [1], "data": [key]},
            {"name": "until", "datatype": "INT64", "shape": [1], "data": [30]},
        ],
    }
    path = "/v2/models/blocking/infer_stream"
    connection = Connection(server, path, json.dumps(request).encode(), prefer="respond-async, resumable")
    connection.read(9000)
    connection.cut("reset")
    events = connection.events
    rest = Connection(server, path, last_event_id=events[-1]["id"])
    rest.read()
    found = [json.loads(event["data"]) for event in (*events[1:], *rest.events) if "event" not in event]
    assert {response["id"] for response in found} == {"7"}
    assert [response["outputs"][0]["data"][0].split()[0] for response in found] == [str(i) for i in range(30)]


def test_resumed_stream_is_one_request_in_metrics_and_log(server: Running) -> None:
    key = f"once-{next(keys)}"
    path = "/v2/models/{model_name}/generate_stream"
    page = {"method": "POST", "path": path, "status_code": "200"}

    def counted() -> tuple[float, float, int]:
        return (
            server.metric("rest_server_requests_total", **page),
            server.metric("model_infer_request_success_total", model="count"),
            len(re.findall(r"stream count: success", server.text())),
        )

    before = counted()
    events = resumed(server, [(200, "reset"), (300, "close"), (100, "held")], key, until=20, pause=0.01)
    assert numbers(events) == list(range(20))
    eventually(lambda: counted() == tuple(each + 1 for each in before))
    assert server.metric("rest_server_requests_total", method="GET", path=path) == 0
    eventually(lambda: server.metric("rest_server_requests_in_progress") <= 1)


def test_finished_stream_returns_204(server: Running) -> None:
    events = resumed(server, [], f"end-{next(keys)}", until=3)
    url = f"{server.url}/v2/models/count/generate_stream"
    found = httpx.get(url, headers={"last-event-id": events[-1]["id"]})
    assert (found.status_code, found.content) == (204, b"")
    assert "content-length" not in found.headers
    posted = httpx.post(url, headers={"last-event-id": events[-1]["id"]}, json={"key": "never", "until": 1})
    assert posted.status_code == 204
    again = httpx.get(url, headers={"last-event-id": events[1]["id"]})
    assert numbers(parse(again.text)) == [1, 2]
    assert not server.noted("begun never")


def parse(text: str) -> list[dict[str, str]]:
    return [dict(line.split(": ", 1) for line in block.split("\n")) for block in text.split("\n\n")[:-1]]


def test_unresumable_stream_is_reported(server: Running) -> None:
    events = resumed(server, [], f"not-{next(keys)}", until=3)
    id, _, _ = events[-1]["id"].rpartition(":")
    models = f"{server.url}/v2/models"

    def refusal(last: str, path: str = "count/generate_stream", **headers: str) -> tuple[int, str]:
        found = httpx.get(f"{models}/{path}", headers={"last-event-id": last, **headers})
        return found.status_code, found.json()["error"]

    assert refusal("17") == (400, "Last-Event-ID names no event of this server: '17'")
    assert refusal(f"{id}:5") == (400, "The stream has 4 events so far, and none with the number 5.")
    for other in ("0.unknown:1", "1.unknown:1", "63.unknown:1"):
        assert refusal(other)[0] == 410
    gone = (
        410,
        "No such stream is held for this client: it waited longer than resume_timeout, "
        "or its first request had other credentials (the setting credential_headers names them).",
    )
    assert refusal(f"{id}:1", "blocking/generate_stream") == gone
    assert refusal(f"{id}:1", authorization="Bearer other") == gone
    cookie = {"last-event-id": f"{id}:3", "cookie": "AWSALB=2"}  # a load balancer's, which changes
    assert httpx.get(f"{models}/count/generate_stream", headers=cookie).status_code == 200


def test_model_error_is_recorded(server: Running) -> None:
    path = "/v2/models/breaks/generate_stream"
    connection = Connection(server, path, asked(after=2), prefer="resumable")
    connection.read()
    *_, error, end = connection.events
    assert "error" in json.loads(error["data"])
    assert end["event"] == "end"
    again = Connection(server, path, last_event_id=connection.events[1]["id"])
    again.read()
    assert again.events == connection.events[2:]


def test_errors_before_the_first_event_are_statuses(server: Running) -> None:
    url = f"{server.url}/v2/models/count/generate_stream"
    assert httpx.post(url, json={"until": "x"}, headers=RESUMABLE).status_code == 400
    assert httpx.post(url.replace("count", "nobody"), json={}, headers=RESUMABLE).status_code == 404


def test_configured_headers_own_stream(start: Callable[..., Running]) -> None:
    running = start(credential_headers=["X-User"])
    url = f"{running.url}/v2/models/count/generate_stream"
    body = {"key": "owned", "until": 10**6, "pause": 0.01, "id": "owned"}
    mine = {"x-user": "ann"}
    with httpx.stream("POST", url, json=body, headers={**RESUMABLE, **mine}) as stream:
        id = next(line for line in stream.iter_lines() if line.startswith("id: "))
    last = {"last-event-id": id.removeprefix("id: ")}
    cancel = f"{running.url}/v2/requests/owned"
    for other in ({}, {"x-user": "bob"}):
        assert httpx.delete(url, headers={**last, **other}).status_code == 410
        assert httpx.delete(cancel, headers=other).status_code == 404
    assert httpx.delete(cancel, headers={**mine, "authorization": "not looked at"}).status_code == 200
    eventually(lambda: running.noted("finished owned"))


def test_released_stream_ends_model(server: Running) -> None:
    key = f"released-{next(keys)}"
    path = "/v2/models/count/generate_stream"
    connection = Connection(server, path, asked(key=key, until=10**6, pause=0.01), prefer="resumable")
    connection.read(1000)
    last = {"last-event-id": connection.events[-1]["id"]}
    connection.cut("reset")
    assert httpx.delete(server.url + path, headers=last).json() == {"cancelled": 1}
    eventually(lambda: server.noted(f"finished {key}"))
    assert httpx.get(server.url + path, headers=last).status_code == 410
    assert httpx.delete(server.url + path, headers=last).status_code == 410


def test_other_streams_are_unchanged(server: Running) -> None:
    found = httpx.post(f"{server.url}/v2/models/count/generate_stream", json={"key": "plain", "until": 2})
    assert found.text == "".join(
        f'data: {{"output":{number},"model_name":"count","model_version":""}}\n\n' for number in range(2)
    )
    assert "preference-applied" not in found.headers


def test_unresumed_stream_expires(start: Callable[..., Running]) -> None:
    running = start(resume_timeout=0.2, resumable_streams=True)
    path = "/v2/models/count/generate_stream"
    connection = Connection(running, path, asked(key="left", until=10**6, pause=0.01))
    connection.read(1000)
    connection.cut("reset")
    eventually(lambda: running.noted("finished left"))
    last = {"last-event-id": connection.events[-1]["id"]}
    assert httpx.get(running.url + path, headers=last).status_code == 410
    assert running.metric("model_infer_request_success_total", model="count") == 0
    eventually(lambda: running.metric("rest_server_requests_in_progress") <= 1)


def test_full_buffer_applies_backpressure_and_drops_read_events(start: Callable[..., Running]) -> None:
    running = start(resume_items=20)
    path = "/v2/models/blocking/generate_stream"
    connection = Connection(running, path, asked(key="full", until=10**5), prefer="resumable")
    connection.read(3000)
    first = connection.events[0]["id"]

    def made() -> int:
        return sum(line.startswith("made full") for line in running.log.read_text().splitlines())

    def steady() -> bool:
        before = made()
        time.sleep(0.3)
        return before == made()

    eventually(steady, 20)
    before = made()
    assert before < 10**5
    connection.cut("reset")
    eventually(steady, 10)
    assert made() <= before + 21
    found = httpx.get(running.url + path, headers={"last-event-id": first})
    assert found.status_code == 410
    assert "resume_items" in found.json()["error"]


@pytest.mark.parametrize("workers", [0, 2])
def test_deadline_ends_stream_with_full_buffer(start: Callable[..., Running], workers: int) -> None:
    running = start(resume_items=2, resume_timeout=60, parallel_workers=workers)
    path = "/v2/models/count/generate_stream"
    asking = asked(key="full", until=10**6, pause=0.2)
    connection = Connection(running, path, asking, prefer="resumable", x_request_timeout="2")
    while not numbers(connection.events):
        assert not connection.read(len(connection._raw) + 1)
    connection.cut("reset")
    eventually(lambda: running.noted("finished full"))
    eventually(lambda: running.metric("rest_server_requests_in_progress") <= 1)
    rest = Connection(running, path, last_event_id=connection.events[-1]["id"])
    rest.read()
    *_, error, end = rest.events
    assert "deadline" in json.loads(error["data"])["error"]
    assert end["event"] == "end"


@pytest.mark.parametrize("workers", [0, 2])
def test_deadline_ends_model_of_stalled_client(start: Callable[..., Running], workers: int) -> None:
    running = start(parallel_workers=workers)
    path = "/v2/models/blocking/generate_stream"
    unread = Connection(running, path, asked(key="unread", until=10**6), x_request_timeout="2")
    eventually(lambda: running.noted("begun unread"))
    eventually(lambda: running.noted("finished unread"), 10)
    assert not running.noted("completed unread")
    unread.cut("reset")


def test_unload_ends_stream_with_full_buffer(start: Callable[..., Running]) -> None:
    running = start(resume_items=2, resume_timeout=60, shutdown_grace=0.2)
    path = "/v2/models/count/generate_stream"
    connection = Connection(running, path, asked(key="unloaded", until=10**6), prefer="resumable")
    connection.read(400)
    connection.cut("reset")
    running.begin_stop()
    assert running.stop() == 0
    assert running.noted("finished unloaded")


def test_client_reads_streams_resumable_by_setting(start: Callable[..., Running]) -> None:
    running = start(resumable_streams=True)
    with Client(running.url) as client:
        assert [*client.stream("count", key="client", until=3)] == [0, 1, 2]
        with pytest.raises(CallFailed):
            [*client.stream("breaks", after=2)]


def test_client_releases_abandoned_stream(start: Callable[..., Running]) -> None:
    running = start(resumable_streams=True, resume_timeout=600)
    endless = {"until": 10**6, "pause": 0.01}
    headers = {"authorization": "Bearer mine"}
    with Client(running.url) as client:
        for _ in client.stream("count", key="left", headers=headers, **endless):
            break
        eventually(lambda: running.noted("finished left"))
        for _ in client.stream("count", key="closed", **endless):
            break
    eventually(lambda: running.noted("finished closed"))


async def test_client_releases_cancelled_stream(start: Callable[..., Running]) -> None:
    running = start(resumable_streams=True, resume_timeout=600)
    got = asyncio.Event()
    async with AsyncClient(running.url) as client:

        async def read() -> None:
            async for _ in client.stream("count", key="cancelled", until=10**6, pause=0.01):
                got.set()

        reading = asyncio.ensure_future(read())
        await asyncio.wait_for(got.wait(), 20)
        reading.cancel()
        await asyncio.wait([reading])
    eventually(lambda: running.noted("finished cancelled"))


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_stream_resumes_during_drain(start: Callable[..., Running], method: str) -> None:
    running = start(shutdown_grace=10)
    path = "/v2/models/count/generate_stream"
    connection = Connection(running, path, asked(key="drains", until=20, pause=0.15), prefer="resumable")
    connection.read(500)
    connection.cut("reset")
    running.begin_stop()
    eventually(lambda: httpx.get(f"{running.url}/v2/health/ready").status_code == 503)
    last = connection.events[-1]["id"]
    rest = Connection(running, path, None if method == "GET" else b"{no JSON", last_event_id=last)
    rest.read()
    assert rest.status == 200
    assert numbers(connection.events + rest.events) == list(range(20))


def test_stream_limit_is_enforced(start: Callable[..., Running]) -> None:
    running = start(max_held_streams=2)
    path = "/v2/models/count/generate_stream"
    for key in ("one", "two"):
        connection = Connection(running, path, asked(key=key, until=10**6, pause=0.01), prefer="resumable")
        connection.read(1000)
    refused = httpx.post(running.url + path, json={"key": "three", "until": 1}, headers=RESUMABLE)
    assert refused.status_code == 429
    assert "max_held_streams" in refused.json()["error"]
    assert running.metric("inferstream_held_streams") == 2
    plain = httpx.post(running.url + path, json={"key": "four", "until": 1})
    assert plain.status_code == 200
    httpx.delete(running.url + path, headers={"last-event-id": connection.events[-1]["id"]})
    assert running.metric("inferstream_held_streams") == 1
    for key in ("five", "six"):  # one that is read to its end makes place for the next
        last = httpx.post(running.url + path, json={"key": key, "until": 1}, headers=RESUMABLE)
        assert last.status_code == 200


def test_unread_finished_stream_is_evicted(start: Callable[..., Running]) -> None:
    running = start(max_held_streams=1, resume_timeout=60)
    path = "/v2/models/count/generate_stream"
    left = Connection(running, path, asked(key="left", until=2, pause=0.5), prefer="resumable")
    while not left.events:
        assert not left.read(len(left._raw) + 1)
    left.cut("reset")
    eventually(lambda: running.noted("completed left"))

    def place() -> bool:
        found = httpx.post(running.url + path, json={"key": "next", "until": 1}, headers=RESUMABLE)
        return found.status_code == 200

    eventually(place)


def test_shutdown_ends_detached_streams_with_event(start: Callable[..., Running]) -> None:
    running = start(shutdown_grace=0.5)
    path = "/v2/models/count/infer_stream"
    inputs = [
        {"name": "key", "datatype": "BYTES", "shape": [1], "data": ["stopped"]},
        {"name": "until", "datatype": "INT64", "shape": [1], "data": [10**6]},
        {"name": "pause", "datatype": "FP64", "shape": [1], "data": [0.01]},
    ]
    body = json.dumps({"inputs": inputs}).encode()
    read = Connection(running, path, body, prefer="resumable")
    left = Connection(running, path, body, prefer="resumable")
    for connection in (read, left):
        connection.read(1000)
    left.cut("reset")
    running.begin_stop()
    read.read()
    *_, error, end = read.events
    assert error["event"] == "error"
    assert json.loads(error["data"])["code"] == "draining"
    assert end["event"] == "end"


def test_second_connection_takes_over_stream(server: Running) -> None:
    """The first one may be half open. It must not keep a place on the server."""
    path = "/v2/models/count/generate_stream"
    key = f"over-{next(keys)}"
    first = Connection(server, path, asked(key=key, until=2, pause=3), prefer="resumable")
    while numbers(first.events) != [0]:
        assert not first.read(len(first._raw) + 1)
    second = Connection(server, path, last_event_id=first.events[-1]["id"])
    with suppress(ConnectionResetError):
        first.read()
    assert not server.noted(f"completed {key}")
    second.read()
    assert numbers(first.events + second.events) == [0, 1]
