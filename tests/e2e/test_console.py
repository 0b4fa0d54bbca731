"""What a person sees who starts a server in a terminal, and what a log has instead."""

import json
import re
import shlex
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import pytest

from inferstream.protos.dataplane_pb2 import ModelInferRequest, ServerReadyRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.certificates import Authority
from tests.serving import SERVER, Running, eventually, write_model
from tests.terminal import Terminal, in_terminal

APP = """
import time
from collections.abc import AsyncIterator
from inferstream import App

app = App()

@app.model
async def words(prompt: str) -> AsyncIterator[str]:
    for word in prompt.split():
        yield word + " "

@app.model
def add(a: int, b: int = 1) -> int:
    return a + b

def broken(a):
    return {}[a]

@app.model
def fails(a: int) -> int:
    return broken(a)
"""

CLOCK = re.compile(r"\d\d:\d\d:\d\d ")


def app_in(folder: Path) -> Path:
    (folder / "app.py").write_text(APP)
    return folder / "app.py"


@pytest.fixture(
    scope="module", params=[("0", "1"), ("2", "1"), ("0", "2")], ids=["plain", "workers", "front ends"]
)
def terminal(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    workers, frontends = request.param
    app = app_in(tmp_path_factory.mktemp("console"))
    shown = in_terminal(app, "--workers", workers, "--frontends", frontends).started()
    yield shown
    assert shown.interrupt() == 0, shown.text
    assert "stopped" in shown.text


def post(url: str, path: str, **body: object) -> httpx.Response:
    return httpx.post(f"{url}{path}", json=body, timeout=20)


def lines(terminal: Terminal, model: str) -> list[list[str]]:
    """The access lines of a model, as words without the time."""
    found = [line.split() for line in terminal.text.splitlines() if CLOCK.match(line)]
    return [words[1:] for words in found if len(words) > 2 and words[2] == model]


def test_each_request_is_one_line(terminal: Terminal) -> None:
    before = len(lines(terminal, "add"))
    for _ in range(6):  # a connection each, so that each front end gets some
        assert post(terminal.url, "/v2/models/add/generate", a=1).json()["output"] == 2
    eventually(lambda: len(lines(terminal, "add")) >= before + 6)
    found = lines(terminal, "add")[before:]
    assert len(found) == 6
    for words in found:
        assert words[:3] == ["REST", "add", "ok"]
        assert words[4] == "ms"
        assert float(words[3]) > 0
    with httpx.stream(
        "POST", f"{terminal.url}/v2/models/words/generate_stream", json={"prompt": "a b c"}
    ) as stream:
        stream.read()
    eventually(lambda: lines(terminal, "words"))
    (words,) = lines(terminal, "words")
    assert words[:3] == ["SSE", "words", "ok"]
    assert words[-2:] == ["3", "items"]


def test_refused_requests_are_logged_with_reason(terminal: Terminal) -> None:
    assert post(terminal.url, "/v2/models/nope/generate", a=1).status_code == 404
    assert post(terminal.url, "/v2/models/add/generate", a="x").status_code == 400
    assert httpx.get(f"{terminal.url}/v2/nothing").status_code == 404
    assert httpx.get(f"{terminal.url}/v2/health/ready").status_code == 200
    terminal.shows('argument "a" takes an integer')
    eventually(lambda: lines(terminal, "nope") and lines(terminal, "/v2/nothing"))
    assert lines(terminal, "nope")[0][:4] == ["REST", "nope", "not", "found"]
    assert lines(terminal, "/v2/nothing")[0][:3] == ["GET", "/v2/nothing", "404"]
    assert "/v2/health" not in terminal.text


def test_traceback_contains_user_frames(terminal: Terminal) -> None:
    assert post(terminal.url, "/v2/models/fails/generate", a=1).status_code == 500
    terminal.shows("--debug shows them")
    eventually(lambda: lines(terminal, "fails"))
    text = terminal.text
    assert "in broken" in text
    assert "KeyError: 1" in text
    assert "inferstream/" not in text.partition("Traceback")[2].partition("left out")[0]
    assert lines(terminal, "fails")[0][2] == "internal"


def test_banner_commands_work_unchanged(terminal: Terminal) -> None:
    text = terminal.text.partition("Try, in another terminal:")[2].partition("Ctrl+C")[0]
    commands = [line.strip() for line in text.splitlines() if line.strip()]
    assert len(commands) == 3
    for command in commands:
        assert command.startswith("curl "), command
        ran = subprocess.run(
            [*shlex.split(command), "-sS", "--fail"], capture_output=True, text=True, timeout=30
        )
        assert ran.returncode == 0, (command, ran)
        assert "error" not in ran.stdout
    assert "/add/generate" in commands[0]
    assert "/words/generate_stream" in commands[1]
    assert "/v1/chat/completions" in commands[2]


def test_page_is_listed_first(terminal: Terminal) -> None:
    addresses = re.findall(r"^(page|REST|metrics|gRPC) ", terminal.text, re.M)
    assert addresses == ["page", "REST", "metrics", "gRPC"]
    assert httpx.get(f"{terminal.url}/").status_code == 200


SLOW = """
import time
from inferstream import MLModel

class Model(MLModel):
    def load(self):
        time.sleep(1.6)
    async def predict(self, payload): ...
"""

FAILING = """
from inferstream import MLModel

class Model(MLModel):
    def load(self):
        raise ValueError("no weights")
"""


def test_terminal_shows_loads_and_failures_at_once(tmp_path: Path) -> None:
    write_model(tmp_path / "models", "slow", "model.Model", SLOW)
    write_model(tmp_path / "models", "fails", "model.Model", FAILING)
    shown = in_terminal(tmp_path / "models")
    try:
        eventually(lambda: re.search(r"loading 2 of 2: slow \d s", shown.raw), 30)
        shown.started()
    finally:
        assert shown.interrupt() == 0
    text = shown.text
    assert text.index("Model fails did not load: ValueError: no weights") < text.index("loaded model slow in")
    assert "loading 2 of 2" not in text, "the line is erased"
    assert re.search(r"^slow +predict +[1-9]\.\d s  ready$", text, re.M)


def test_log_has_load_lines_and_no_call_lines(tmp_path: Path) -> None:
    running = Running(tmp_path, target=str(app_in(tmp_path)))
    try:
        assert post(running.url, "/v2/models/add/generate", a=1).status_code == 200
        assert post(running.url, "/v2/models/fails/generate", a=1).status_code == 500
        eventually(lambda: "left out" in running.text())
    finally:
        assert running.stop() == 0
    text = running.text()
    assert re.search(r"INFO - loading words, add, fails$", text, re.M)
    assert re.search(r"INFO - loaded model add in \d+\.\d s$", text, re.M)
    assert "inferstream.access" not in text
    assert "curl" not in text
    assert "\x1b" not in text


@pytest.mark.parametrize("flag", ["--access-log", "--no-access-log"])
def test_flags_control_call_logging(tmp_path: Path, flag: str) -> None:
    running = Running(tmp_path, flag, "--log-json", target=str(app_in(tmp_path)))
    try:
        assert post(running.url, "/v2/models/add/generate", a=1).status_code == 200
        post(running.url, "/v2/models/fails/generate", a=1)
        eventually(lambda: "KeyError" in running.text())
    finally:
        assert running.stop() == 0
    records = [json.loads(line) for line in running.text().splitlines() if line.startswith("{")]
    access = [record["message"] for record in records if record["name"] == "inferstream.access"]
    assert [line.split(":")[0] for line in access] == (
        ["triton infer add", "triton infer fails"] if flag == "--access-log" else []
    )
    (failed,) = [record for record in records if "exception" in record]
    assert "inferstream/" in failed["exception"], "JSON has the whole traceback"


def test_flag_disables_access_log_in_terminal(tmp_path: Path) -> None:
    shown = in_terminal(app_in(tmp_path), "--no-access-log", NO_COLOR="1").started()
    try:
        assert post(shown.url, "/v2/models/add/generate", a=1).status_code == 200
        post(shown.url, "/v2/models/fails/generate", a=1)
        shown.shows("KeyError")
    finally:
        assert shown.interrupt() == 0
    assert lines(shown, "add") == []
    assert "\x1b[3" not in shown.raw


def test_debug_shows_full_tracebacks(tmp_path: Path) -> None:
    running = Running(tmp_path, "--debug", target=str(app_in(tmp_path)))
    try:
        post(running.url, "/v2/models/fails/generate", a=1)
        eventually(lambda: "KeyError" in running.text())
    finally:
        assert running.stop() == 0
    assert "inferstream/" in running.text().partition("Traceback")[2]
    assert "left out" not in running.text()


def test_nothing_to_serve_error_names_next_step(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("def f(x): return x\n")
    ran = subprocess.run(
        [*SERVER, "start", str(tmp_path / "plain.py")], capture_output=True, text=True, timeout=40
    )
    assert ran.returncode == 1
    (line,) = ran.stderr.splitlines()
    assert "@app.model" in line
    running = Running(tmp_path)
    try:
        assert "no folder in" in running.text()
        assert "model-settings.json" in running.text()
        assert f"server start {tmp_path}/plain.py" in running.text()
        assert "server init" in running.text()
    finally:
        assert running.stop() == 0


def test_file_classes_are_served_and_reloaded(tmp_path: Path) -> None:
    code = 'from inferstream import MLModel\nclass Echo(MLModel):\n    async def predict(self, payload):\n        return self.encode_response(["{word}"])\n'
    file = tmp_path / "model.py"
    file.write_text(code.format(word="old"))
    running = Running(tmp_path, "--reload", target=str(file))

    def said() -> str:
        return running.infer("Echo", {"inputs": []}).json()["outputs"][0]["data"][0]

    try:
        assert said() == "old"
        file.write_text(code.format(word="newer"))
        eventually(lambda: said() == "newer", 20)
        file.write_text("x = (")
        eventually(lambda: "the old version goes on serving" in running.text(), 20)
        assert said() == "newer"
    finally:
        assert running.stop() == 0


def test_command_line_certificate_applies_to_every_port(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    files = authority.issue("server")
    flags = ["--tls-cert", files["ssl_certfile"], "--tls-key", files["ssl_keyfile"]]
    running = Running(tmp_path, *flags, target=str(app_in(tmp_path)))
    try:
        context = ssl.create_default_context(cafile=authority.pem)
        for port, path in ((running.http_port, "/v2/health/ready"), (running.metrics_port, "/metrics")):
            assert httpx.get(f"https://127.0.0.1:{port}{path}", verify=context, timeout=10).status_code == 200
        credentials = grpc.ssl_channel_credentials(authority.pem.read_bytes())
        with grpc.secure_channel(f"localhost:{running.grpc_port}", credentials) as channel:
            answer = GRPCInferenceServiceStub(channel).ServerReady(ServerReadyRequest(), timeout=10)
        assert answer.ready
        assert f"page     https://127.0.0.1:{running.http_port}/" in running.text()
    finally:
        assert running.stop() == 0


def test_grpc_call_is_one_line(tmp_path: Path) -> None:
    write_model(tmp_path / "models", "echo", "faulty_models.Echo")
    shown = in_terminal(tmp_path / "models").started()
    try:
        port = re.search(r"^gRPC +127\.0\.0\.1:(\d+)", shown.text, re.M)[1]
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = GRPCInferenceServiceStub(channel)
            request = ModelInferRequest(model_name="echo")
            tensor = request.inputs.add(name="x", datatype="FP32", shape=[1])
            tensor.contents.fp32_contents.append(1.0)
            stub.ModelInfer(request, timeout=10)
            request.model_name = "nope"
            with pytest.raises(grpc.RpcError):
                stub.ModelInfer(request, timeout=10)
        eventually(lambda: lines(shown, "nope"))
        assert lines(shown, "echo")[0][:3] == ["gRPC", "echo", "ok"]
        assert lines(shown, "nope")[0][:4] == ["gRPC", "nope", "not", "found"]
    finally:
        assert shown.interrupt() == 0
