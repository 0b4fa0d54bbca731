"""`server top` shows the server that it is given, and no other."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from inferstream.ext.hosting import ClientTarget as Target
from inferstream.plugins.tools.top import table


class Metrics(BaseHTTPRequestHandler):
    def do_GET(self) -> None:  # the library's name
        refused = self.headers.get("X-API-Key") == "wrong"
        at_metrics = self.server.server_port == table.METRICS_PORT
        self.send_response(401 if refused else 200 if at_metrics else 404)
        self.end_headers()
        self.wfile.write(b"inferstream_frontends 7\n")

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None: ...


def listening() -> HTTPServer:
    server = HTTPServer(("127.0.0.1", 0), Metrics)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server


@pytest.fixture
def metrics(monkeypatch: pytest.MonkeyPatch) -> Iterator[HTTPServer]:
    """The metrics of a server, at the default port."""
    server = listening()
    monkeypatch.setattr(table, "METRICS_PORT", server.server_port)
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.usefixtures("metrics")
def test_unreachable_server_shows_no_numbers_of_another(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"127.0.0.1:{free.getsockname()[1]}"
    assert table.run(Target(url), once=True, interval=0) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith(f"error: no server at http://{url}: ")
    assert "front ends" not in shown.out


@pytest.mark.usefixtures("metrics")
def test_metrics_port_of_running_server_is_scraped(capsys: pytest.CaptureFixture[str]) -> None:
    server = listening()
    try:
        assert table.run(Target(f"127.0.0.1:{server.server_port}"), once=True, interval=0) == 0
    finally:
        server.shutdown()
        server.server_close()
    assert "front ends 7" in capsys.readouterr().out


@pytest.mark.usefixtures("metrics")
def test_refused_key_is_reported_without_trying_other_port(capsys: pytest.CaptureFixture[str]) -> None:
    server = listening()
    target = Target(f"127.0.0.1:{server.server_port}", headers={"X-API-Key": "wrong"})
    assert table.run(target, once=True, interval=0) == 1
    shown = capsys.readouterr().err
    assert "-H 'Authorization: Bearer KEY'" in shown
    assert "metrics_endpoint" not in shown
    server.shutdown()
    server.server_close()
