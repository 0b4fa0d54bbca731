"""Starting on taken ports and wrong settings; stopping with calls in progress."""

import os
import resource
import signal
import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.serving import Running, eventually, fp32, text, write_model


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "models"
    for name, model in (
        ("echo", "Echo"),
        ("slow", "Slow"),
        ("streaming", "Streaming"),
        ("blocking", "Blocking"),
    ):
        write_model(root, name, f"faulty_models.{model}")
    return root


@pytest.mark.parametrize("flag", ["--http-port", "--grpc-port", "--metrics-port"])
def test_used_port_is_one_line_before_models_load(start, folder, flag: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        started = time.monotonic()
        server = start(folder, flag, str(port), wait=False)
        assert server.process.wait(20) == 1
        assert time.monotonic() - started < 10
    line, hint = server.text().splitlines()
    assert str(port) in line
    assert "already in use" in line
    assert hint == f"hint: choose another one with {flag.replace('http-', '')}"


def test_shared_metrics_and_grpc_port_is_one_line(start, folder) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    server = start(folder, "--metrics-port", port, "--grpc-port", port, wait=False)
    assert server.process.wait(20) == 1
    assert server.text().splitlines() == [
        f"error: the ports of metrics and gRPC are both {port}; give each its own"
    ]


@pytest.mark.parametrize("flag", ["--tls-cert", "--tls-key"])
def test_missing_certificate_names_its_flag(start, folder, flag: str) -> None:
    server = start(folder, flag, "nope.pem", wait=False)
    assert server.process.wait(20) == 2
    assert f"Invalid value for '{flag}'" in server.text()
    assert "nope.pem" in server.text()


def test_unknown_environment_variables_are_warned_about_once(start, folder) -> None:
    said = start(folder, INFERSTREAM_PARALEL_WORKERS="1", INFERSTREAM_SHUTDOWN_GRACE="5").text()
    assert said.count("environment: INFERSTREAM_PARALEL_WORKERS is unknown and ignored") == 1
    assert "did you mean INFERSTREAM_PARALLEL_WORKERS?" in said
    assert "SHUTDOWN_GRACE" not in said


def test_invalid_setting_aborts_startup_naming_file_and_field(start, folder) -> None:
    (folder / "settings.json").write_text('{"header_timeout": "soon"}')
    server = start(folder, wait=False)
    assert server.process.wait(20) == 1
    [line] = server.text().splitlines()
    assert line.startswith("error: ")
    assert "settings.json" in line
    assert "header_timeout" in line


@pytest.mark.parametrize(
    ("named", "variables"),
    [("keys_file", {}), ("INFERSTREAM_KEYS", {"INFERSTREAM_KEYS": "{}"})],
    ids=["setting", "variable"],
)
def test_missing_access_control_aborts_startup(
    start, folder, tmp_path, named: str, variables: dict[str, str]
) -> None:
    info = tmp_path / "bare" / "inferstream-0.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text("[inferstream.extensions]\n")
    if not variables:
        (folder / "settings.json").write_text('{"keys_file": "keys.json"}')
    path = f"{info.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    server = start(folder, wait=False, PYTHONPATH=path, **variables)
    assert server.process.wait(20) == 1
    [line] = server.text().splitlines()
    assert line.startswith("error: ")
    assert named in line
    assert line.endswith(": no installed plug-in declares this setting; installed plug-ins: none")


def test_unknown_and_ineffective_fields_are_warned_about_once(start, folder) -> None:
    (folder / "settings.json").write_text('{"htpt_port": 1}')
    write_model(folder, "warm", "faulty_models.Echo", warm_workers=True)
    said = start(folder).text()
    assert said.count('field "htpt_port" is unknown and ignored; did you mean "http_port"?') == 1
    assert said.count('accepted but without effect: "warm_workers"') == 1


def test_missing_repository_folder_is_an_error(start, tmp_path) -> None:
    server = start(tmp_path / "nothing", wait=False)
    assert server.process.wait(20) == 1


def test_sigterm_finishes_calls_and_exits_with_zero(serve, folder) -> None:
    server = serve(folder)
    with ThreadPoolExecutor(20) as pool:
        calls = [
            pool.submit(server.infer, "slow", text(id=f"d{i}", parameters={"seconds": 1})) for i in range(10)
        ]
        calls.append(pool.submit(server.infer, "blocking", text(id="d10", parameters={"seconds": 1})))
        eventually(lambda: all(server.noted(f"start d{i}") for i in range(11)))
        keep_alive = httpx.Client()
        keep_alive.get(f"{server.url}/v2/health/live")

        server.process.send_signal(signal.SIGTERM)

        eventually(lambda: httpx.get(f"{server.url}/v2/health/ready").status_code == 503)
        with suppress(httpx.TransportError):  # a connection that has just been accepted may be closed
            assert server.infer("echo", fp32([1.0])).status_code == 503
        assert [call.result().status_code for call in calls] == [200] * 11
        assert server.process.wait(30) == 0
        keep_alive.close()


def test_shutdown_delay_serves_while_not_ready(serve, folder) -> None:
    (folder / "settings.json").write_text('{"shutdown_delay": 1}')
    server = serve(folder)
    server.process.send_signal(signal.SIGTERM)
    eventually(lambda: httpx.get(f"{server.url}/v2/health/ready").status_code == 503)
    server.probe()
    assert server.process.wait(30) == 0


def test_streams_end_with_event_after_grace_period(serve, folder) -> None:
    (folder / "settings.json").write_text('{"shutdown_grace": 0.5}')
    server = serve(folder)
    with ThreadPoolExecutor() as pool:
        endless = text(id="s", parameters={"items": 10**6, "delay": 0.1})
        stream = pool.submit(server.infer, "streaming", endless, "generate_stream")
        eventually(lambda: server.noted("start s"))
        server.process.send_signal(signal.SIGTERM)
        answer = stream.result()
    assert answer.text.rstrip().splitlines()[-2] == "event: error"
    assert "shutting down" in answer.text
    assert server.noted("finally s")
    assert server.process.wait(30) == 0


def test_hung_thread_does_not_block_exit(serve, folder) -> None:
    (folder / "settings.json").write_text('{"shutdown_grace": 0.3}')
    server = serve(folder)
    with ThreadPoolExecutor() as pool:
        call = pool.submit(server.infer, "blocking", text(id="hung", parameters={"seconds": 60}))
        eventually(lambda: server.noted("start hung"))
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
        assert call.exception() is not None or call.result().status_code == 503


HOG = """
import asyncio
import time
from inferstream import MLModel
class Hog(MLModel):
    async def predict(self, payload):
        {first}
        time.sleep(600)
"""


@pytest.mark.parametrize(
    ("first", "loop", "exit_code"),
    [("await asyncio.sleep(0)", "server", 1), ("await asyncio.sleep(0)", "own", 0), ("", "own", 0)],
    ids=["the server's loop", "its loop after an await", "its loop"],
)
def test_blocked_model_does_not_block_exit(
    serve, folder, workers: int, first: str, loop: str, exit_code: int
) -> None:
    write_model(folder, "hog", "hog.Hog", HOG.replace("{first}", first), loop=loop)
    (folder / "settings.json").write_text('{"shutdown_grace": 0}')
    server = serve(folder)
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{server.url}/v2/models/hog/infer", json=text(), timeout=1)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(30) == exit_code


def test_second_signal_exits_at_once(serve, folder) -> None:
    server = serve(folder)
    with ThreadPoolExecutor() as pool:
        pool.submit(server.infer, "slow", text(id="l", parameters={"seconds": 60}))
        eventually(lambda: server.noted("start l"))
        server.process.send_signal(signal.SIGINT)
        eventually(lambda: "stopping" in server.text())
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(30) == 130


def test_open_file_limit_is_raised_to_maximum(start, folder) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        server = start(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)[0] == min(hard, 65_536)


def test_sighup_is_ignored(serve, folder) -> None:
    server = serve(folder)
    server.process.send_signal(signal.SIGHUP)
    server.probe()


def test_metrics_count_calls_streams_and_requests(server: Running) -> None:
    before = server.metric("model_infer_request_success_total", model="echo")
    server.infer("echo", fp32([1.0]))
    server.infer("streaming", text(), "generate_stream")
    assert server.metric("model_infer_request_success_total", model="echo") == before + 1
    assert server.metric("inferstream_stream_items_total", model="streaming") >= 3
    assert (
        server.metric("rest_server_requests_total", path="/v2/models/{model_name}/infer", status_code="200")
        > 0
    )
    assert httpx.get(f"http://127.0.0.1:{server.metrics_port}/metrics").status_code == 200


BLOCKED = """
import os, time
from inferstream import MLModel

class Blocked(MLModel):
    def load(self):
        with open(os.environ["TEST_LOG"], "a") as file:
            file.write("loading\\n")
        time.sleep(600)
"""


def test_sigterm_during_load_ends_process(start, serve, folder) -> None:
    write_model(folder, "blocked", "blocked.Blocked", BLOCKED)
    (folder / "settings.json").write_text('{"shutdown_grace": 1}')
    server = serve(folder, wait=False)
    eventually(lambda: server.noted("loading"))
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(20)


def test_sigterm_during_worker_restart_ends_process(start, folder) -> None:
    server = start(folder, INFERSTREAM_PARALLEL_WORKERS="2")
    before = server.workers()
    os.kill(before[0], signal.SIGKILL)
    eventually(lambda: set(server.workers()) - set(before))
    assert server.stop(20) == 0, server.text()
    assert "Traceback" not in server.text()


def test_health_and_reflection_work_while_draining(serve, folder) -> None:
    server = serve(folder)
    with ThreadPoolExecutor() as pool, grpc.insecure_channel(server.grpc) as channel:
        watched = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=60)
        assert next(watched).status == health_pb2.HealthCheckResponse.SERVING
        call = pool.submit(server.infer, "slow", text(id="last", parameters={"seconds": 3}))
        eventually(lambda: server.noted("start last"))
        server.process.send_signal(signal.SIGTERM)
        assert next(watched).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert not call.done()
        assert call.result().status_code == 200
    assert server.process.wait(20) == 0


def test_rolling_restart_behind_proxy_loses_no_call(start, tmp_path) -> None:
    """A proxy asks the other server where one refuses a connection, closes it unanswered or is leaving."""
    folders = [tmp_path / name / "models" for name in "ab"]
    for folder in folders:
        write_model(folder, "echo", "faulty_models.Echo")
    servers = [start(folder) for folder in folders]
    ports = [server.http_port for server in servers]
    done = threading.Event()
    statuses: Counter[int] = Counter()

    def ask(first: int) -> None:
        while not done.is_set():
            for port in (ports[first], ports[1 - first]):
                try:
                    with httpx.Client(timeout=20) as client:
                        status = client.post(
                            f"http://127.0.0.1:{port}/v2/models/echo/infer", json=fp32([1.0])
                        ).status_code
                except (httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError):
                    continue
                if status != 503:
                    statuses[status] += 1
                    break

    with ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(ask, number % 2) for number in range(4)]
        try:
            for number, folder in enumerate(folders):
                before = statuses[200]
                assert servers[number].stop(20) == 0, servers[number].text()
                eventually(lambda before=before: statuses[200] > before + 20)
                servers[number] = start(folder, "--http-port", str(ports[number]))
        finally:
            done.set()
        for each in asking:
            each.result()
    assert set(statuses) == {200}
