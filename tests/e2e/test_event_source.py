"""Streams by GET: a browser's EventSource over connections that break, and what a GET may not do."""

import json
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import httpx
import pytest

from tests.browser import CHROMIUM, Page, browser
from tests.serving import Running, eventually

APP = Path(__file__).parents[1] / "held_app.py"
EVENTS = {"accept": "text/event-stream"}
keys = count(1)

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")


def started(root: Path, settings: dict) -> Running:
    folder = root / "app"
    folder.mkdir()
    shutil.copy(APP, folder / "app.py")
    (folder / "settings.json").write_text(json.dumps(settings))
    return Running(folder)


@pytest.fixture(scope="module", params=[{}, {"frontends": 2}], ids=["in-process", "front-ends"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = started(tmp_path_factory.mktemp("event-source"), request.param)
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser() as page:
        yield page


class Cutting:
    """A proxy whose connections for streams break after so many bytes each; then it cuts no more."""

    def __init__(self, running: Running, places: list[int]) -> None:
        self._places = places
        self._to = ("127.0.0.1", running.http_port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.requests: list[bytes] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._to) as server, suppress(OSError):
            while request := client.recv(65536):
                streams = b"generate_stream" in request
                if streams:
                    self.requests.append(request)
                server.sendall(request.replace(b"keep-alive", b"close"))
                left = self._places.pop(0) if streams and self._places else None
                while answer := server.recv(65536):
                    client.sendall(answer if left is None else answer[:left])
                    if left is not None and (left := left - len(answer)) <= 0:
                        return
                return

    def close(self) -> None:
        self._listener.close()


LISTEN = """
new Promise((resolve) => {
  const found = { numbers: [], opened: 0, errors: 0, ends: 0 };
  const source = new EventSource(%s);
  source.onopen = () => { found.opened += 1; };
  source.onmessage = (event) => { found.numbers.push(JSON.parse(event.data).output); };
  source.addEventListener("end", () => {
    found.ends += 1;
    if (%s) { source.close(); resolve(found); }
  });
  source.onerror = () => {
    found.errors += 1;
    if (source.readyState === EventSource.CLOSED) resolve(found);
  };
})
"""


@needs_chromium
@pytest.mark.parametrize("closing", [True, False], ids=["closed at the end", "left open"])
def test_event_source_loses_nothing_and_runs_model_once(server: Running, page: Page, closing: bool) -> None:
    key = f"source-{next(keys)}"
    proxy = Cutting(server, [420, 300, 333, 700, 290])
    try:
        page.open(f"http://127.0.0.1:{proxy.port}/v2/health/live")
        url = f"/v2/models/count/generate_stream?key={key}&until=60&pause=0.005"
        found = page.evaluate(LISTEN % (json.dumps(url), json.dumps(closing)))
    finally:
        proxy.close()
    assert found["numbers"] == list(range(60))
    assert found["ends"] == 1
    assert found["opened"] >= 3
    lines = server.log.read_text().splitlines()
    assert lines.count(f"begun {key}") == lines.count(f"completed {key}") == 1
    reconnected = [request for request in proxy.requests if b"last-event-id" in request.lower()]
    assert len(reconnected) == len(proxy.requests) - 1


@needs_chromium
def test_served_client_runs_in_browser(server: Running, page: Page) -> None:
    page.open(f"{server.url}/v2/health/live")
    script = """
      import("/inferstream.js").then(async ({ Client }) => {
        const found = [];
        const stream = new Client().stream("count", { key: "browser", until: 5 }, { resume: true });
        for await (const { data } of stream) found.push(data.output);
        return found;
      })
    """
    assert page.evaluate(script) == [0, 1, 2, 3, 4]


@needs_chromium
def test_foreign_origin_runs_nothing(server: Running, page: Page) -> None:
    key = f"foreign-{next(keys)}"
    url = f"{server.url}/v2/models/count/generate_stream?key={key}&until=1"
    page.open(f"http://localhost:{server.http_port}/v2/health/live")
    found = page.evaluate(LISTEN % (json.dumps(url), "true"))
    assert (found["opened"], found["errors"]) == (0, 1)
    page.evaluate(
        f"""new Promise((resolve) => {{
          const image = new Image();
          image.onerror = resolve;
          image.src = {json.dumps(url)};
        }}).then(() => fetch({json.dumps(url)}, {{ mode: "no-cors", headers: {{ accept: "text/event-stream" }} }}))
        .then(() => 1)"""
    )
    assert not server.noted(f"begun {key}")


def get(server: Running, query: str, path: str = "count/generate_stream", **headers: str) -> httpx.Response:
    return httpx.get(f"{server.url}/v2/models/{path}?{query}", headers={**EVENTS, **headers})


def test_query_parameters(server: Running) -> None:
    found = get(server, "key=q&until=2&every=1&pause=0e0")
    assert found.status_code == 200
    assert [line for line in found.text.splitlines() if line.startswith('data: {"out')] == [
        f'data: {{"output":{number},"model_name":"count","model_version":""}}' for number in range(2)
    ]
    refusals = {
        "key=q&until=two": (400, "argument \"until\" takes a whole number, got 'two'"),
        "key=q&until=1&pause=x": (400, "argument \"pause\" takes a number, got 'x'"),
        "key=q&until=1&key=q": (400, None),
        "until=1": (400, None),
        "key=q&until=1&other=2": (400, None),
        "key=%ff&until=1": (400, "The query is not percent-encoded UTF-8."),
        "&".join(["key=a"] * 1200): (400, "The query has more than 1000 values."),
        "until=1&key=" + "a" * 9000: (
            414,
            "The query is longer than 8192 bytes. POST takes longer arguments.",
        ),
        "key=q&until=1&items_per_second=0": (400, None),
    }
    for query, (status, message) in refusals.items():
        found = get(server, query)
        assert found.status_code == status, (query, found.text)
        assert message is None or found.json()["error"] == message


def test_other_get_requests_run_nothing(server: Running) -> None:
    key = f"no-{next(keys)}"
    query = f"key={key}&until=1"
    assert get(server, query, accept="*/*").status_code == 406
    for headers in (
        {"origin": "http://foreign"},
        {"host": "foreign"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ):
        assert get(server, query, **headers).status_code == 403
    assert get(server, query, "count/infer_stream").status_code == 405
    assert get(server, query, "count/generate").status_code == 405
    assert get(server, query, "nobody/generate_stream").status_code == 404
    assert not server.noted(f"begun {key}")


@pytest.mark.parametrize("settings", [{"get_streams": False}, {"host": "0.0.0.0"}], ids=["set", "network"])
def test_disabled_event_source(tmp_path: Path, settings: dict) -> None:
    """Beyond loopback browsers do not say over plain HTTP which page has sent a GET."""
    running = started(tmp_path, settings)
    try:
        found = get(running, "key=off&until=1")
        assert (found.status_code, found.headers["allow"]) == (405, "POST")
        assert "get_streams" in found.json()["error"]
        assert not running.noted("begun off")
    finally:
        assert running.stop() == 0


def test_setting_enables_it_beyond_loopback(tmp_path: Path) -> None:
    running = started(tmp_path, {"host": "0.0.0.0", "get_streams": True})
    try:
        assert get(running, "key=on&until=1").status_code == 200
    finally:
        assert running.stop() == 0


def test_query_paces_stream(server: Running) -> None:
    found = get(server, "key=paced&until=6&items_per_second=20")
    assert found.status_code == 200
    assert found.elapsed.total_seconds() >= 0.25
    eventually(lambda: server.noted("finished paced"))
