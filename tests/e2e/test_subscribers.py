"""`server tail` and `server top`, on a server with one front end, several, and with workers."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.serving import SERVER, Running, eventually, write_model

CODE = """
from inferstream import MLModel

class Model(MLModel):
    async def predict(self, payload):
        if payload.inputs[0].data[0] < 0:
            raise ValueError("negative")
        return self.encode_response(["x"])

    async def predict_stream(self, payloads):
        async for payload in payloads:
            for i in range(3):
                yield self.encode_response([str(i)])
"""


@pytest.fixture(
    scope="module", params=[("0", "1"), ("2", "1"), ("0", "2")], ids=["plain", "workers", "front ends"]
)
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("following") / "models"
    for name in ("m", "other"):
        write_model(folder, name, "model.Model", CODE)
    workers, frontends = request.param
    running = Running(folder, "--workers", workers, "--frontends", frontends)
    yield running
    assert running.stop() == 0, running.text()


class Tail:
    """`server tail` with its output in a file."""

    def __init__(self, running: Running, output: Path, *flags: str) -> None:
        self.output = output
        with output.open("w") as file:
            command = [*SERVER, "tail", running.url, *flags]
            self.process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        eventually(lambda: self.text().startswith("following"), 30)

    def text(self) -> str:
        return self.output.read_text()

    def lines(self) -> list[str]:
        return self.text().splitlines()[1:]

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(30)


def ask(running: Running, model: str = "m", value: float = 1.0, action: str = "infer") -> None:
    request = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [value]}]}
    running.infer(model, request, action)


def test_each_call_is_reported_once_across_front_ends(running: Running, tmp_path: Path) -> None:
    ask(running)  # before anybody follows
    tails = [
        Tail(running, tmp_path / "all"),
        Tail(running, tmp_path / "json", "--json", "--model", "other", "--errors"),
    ]
    try:
        for _ in range(6):  # a connection each
            ask(running)
        ask(running, action="infer_stream")
        ask(running, "other", 1.0)
        failing = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [-1.0]}]}
        url, headers = f"{running.url}/v2/models/other/infer", {"x-request-id": "order-7"}
        httpx.post(url, json=failing, headers=headers, trust_env=False)
        running.infer("nope", {"inputs": []})
        eventually(lambda: len(tails[0].lines()) >= 10 and tails[1].lines(), 10)
        lines = [line.split()[1:] for line in tails[0].lines()]
        assert sorted(" ".join(line[:3]) for line in lines) == sorted(
            ["REST m ok"] * 6 + ["SSE m ok", "REST other ok", "REST other internal", "REST nope not"]
        )
        (failed,) = map(json.loads, tails[1].lines())
        assert (failed["model"], failed["status"], failed["face"], failed["operation"]) == (
            "other", "internal", "v2", "infer",
        )  # fmt: skip
        assert failed["ms"] > 0
        assert failed["request_id"] == "order-7"
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+\+00:00", failed["time"])
    finally:
        for tail in tails:
            tail.end()


def test_subscribers_of_each_front_end_see_all_calls(running: Running) -> None:
    """Each connection comes to one of the front ends, and each follows there."""
    with ExitStack() as stack:
        iterators = []
        for _ in range(4):
            client = stack.enter_context(httpx.Client(timeout=20))
            opened = client.stream("GET", f"{running.url}/v2/access", params={"model": "m"})
            iterators.append(stack.enter_context(opened).iter_lines())
        for lines in iterators:
            assert next(lines).startswith(":")
        ask(running)
        found = [next(line for line in lines if line.startswith("data:")) for lines in iterators]
        assert len({json.loads(line[5:])["time"] for line in found}) == 1


def test_server_without_subscribers_makes_no_records(running: Running) -> None:
    ask(running)
    assert "inferstream.access" not in running.text()


def test_top_has_a_row_for_each_model(running: Running) -> None:
    for _ in range(3):
        ask(running)
    ask(running, value=-1.0)
    command = [*SERVER, "top", running.url, "--once", "--interval", "0.2"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=40)
    assert ran.returncode == 0, ran.stderr
    first, head, *rows = ran.stdout.splitlines()
    assert "memory" in first
    assert f"workers {2 if running.workers() and 'front ends' not in first else 0}" in first
    assert head.split()[:4] == ["model", "state", "calls/s", "errors/s"]
    names = [row.split()[:2] for row in rows]
    assert ["m", "ready"] in names
    assert ["other", "ready"] in names
    assert " ms" in next(row for row in rows if row.startswith("m "))


def test_metrics_port_is_supported(running: Running) -> None:
    url = f"127.0.0.1:{running.metrics_port}"
    ran = subprocess.run(
        [*SERVER, "top", url, "--once", "--interval", "0.1"], capture_output=True, text=True, timeout=40
    )
    assert ran.returncode == 0, ran.stderr
    assert any(row.startswith("m ") for row in ran.stdout.splitlines())


def test_disabled_metrics_are_reported(tmp_path: Path) -> None:
    write_model(tmp_path / "models", "m", "model.Model", CODE)
    (tmp_path / "models" / "settings.json").write_text('{"metrics_endpoint": null}')
    running = Running(tmp_path / "models")
    try:
        ran = subprocess.run(
            [*SERVER, "top", running.url, "--once"], capture_output=True, text=True, timeout=40
        )
    finally:
        assert running.stop() == 0
    assert ran.returncode == 1
    (line,) = ran.stderr.splitlines()
    assert "404" in line
    assert "metrics_endpoint" in line


def test_subscriber_ends_after_last_line_on_shutdown(tmp_path: Path) -> None:
    write_model(tmp_path / "models", "m", "model.Model", CODE)
    running = Running(tmp_path / "models")
    tail = Tail(running, tmp_path / "tail")
    ask(running)
    assert running.stop() == 0
    assert tail.process.wait(30) == 0
    assert tail.lines()[-1] == "the server has stopped"
    assert "REST" in tail.lines()[0]
    assert "took longer" not in running.text()


def test_invalid_argument_is_reported(running: Running) -> None:
    found = httpx.get(f"{running.url}/v2/access?errors=x", timeout=10)
    assert found.status_code == 400
    assert found.json()["error"] == "argument \"errors\" takes true or false, got 'x'"


def test_log_is_closed_beyond_loopback_and_to_foreign_origins(tmp_path: Path, running: Running) -> None:
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        with httpx.stream("GET", f"{running.url}/v2/access", headers=headers, timeout=10) as foreign:
            assert foreign.status_code == 403
    write_model(tmp_path / "models", "m", "model.Model", CODE)
    opened = Running(tmp_path / "models", INFERSTREAM_HOST="0.0.0.0")
    try:
        refused = httpx.get(f"{opened.url}/v2/access", timeout=10)
    finally:
        assert opened.stop() == 0
    assert refused.status_code == 403
    assert "allow_open_repository" in refused.json()["error"]
