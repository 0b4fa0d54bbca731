"""The application in servers that are not ours: mounted in FastAPI under a prefix, alone, and as gRPC services."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton
from httpx_sse import connect_sse
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.mounted import COMMANDS, Host, host, is_alive, pids_below, write_host
from tests.serving import eventually, fp32, text


@pytest.fixture(scope="module", params=[0, 2], ids=["in-process", "workers"])
def workers(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture(scope="module", params=COMMANDS)
def server(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def mounted(server: str, workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    running = host(server, "app", write_host(tmp_path_factory.mktemp("mounted")), workers)
    yield running
    running.stop()


def talk(mounted: Host, model: str) -> ClientConnection:
    return connect(f"{mounted.url.replace('http', 'ws', 1)}/v2/models/{model}/stream", open_timeout=20)


def ask(socket: ClientConnection, request: dict) -> None:
    socket.send(json.dumps(request))


def answer(socket: ClientConnection) -> dict:
    return json.loads(socket.recv(timeout=20))


def said(response: dict) -> str:
    return response["outputs"][0]["data"][0]


def test_v2_works_below_prefix(mounted: Host) -> None:
    assert mounted.infer("echo", fp32([1.0, 2.0])).json()["outputs"][0]["data"] == [1.0, 2.0]
    assert httpx.get(f"{mounted.url}/v2/health/ready").status_code == 200
    assert httpx.get(f"{mounted.url}/v2/models/echo").json()["name"] == "echo"
    assert mounted.infer("nobody", text()).status_code == 404


def test_documentation_contains_prefix(mounted: Host) -> None:
    assert 'src="/models/page/page.js"' in httpx.get(f"{mounted.url}/v2/docs").text
    document = httpx.get(f"{mounted.url}/v2/docs/dataplane.json").json()
    assert document["servers"] == [{"url": "/models"}]


def test_repository_is_closed_if_host_is_unknown(mounted: Host) -> None:
    assert httpx.post(f"{mounted.url}/v2/repository/index", timeout=30).status_code == 403


def test_page_is_opt_in_and_host_names_are_unchecked(mounted: Host) -> None:
    assert mounted.infer("echo", fp32([1.0]), headers={"Host": "models.example"}).status_code == 200
    page = {"Host": "models.example", "Origin": "https://models.example"}
    assert mounted.infer("echo", fp32([1.0]), headers=page).status_code == 200
    for origin in ("https://evil.example", "null"):
        assert mounted.infer("echo", fp32([1.0]), headers={"Origin": origin}).status_code == 403
        assert httpx.get(f"{mounted.url}/v2/models", headers={"Origin": origin}).status_code == 403


def test_events_arrive_immediately(mounted: Host) -> None:
    url = f"{mounted.url}/v2/models/streaming/infer_stream"
    with httpx.Client(timeout=20) as client:
        with connect_sse(client, "POST", url, json=text(parameters={"items": 3})) as source:
            events = [json.loads(event.data) for event in source.iter_sse()]
    assert [said(event) for event in events] == ["item 0", "item 1", "item 2"]


@pytest.mark.parametrize(
    ("path", "request_", "name"),
    [
        ("/v2/models/streaming/infer_stream", {"items": 10**6, "delay": 0.01}, "waiting"),
        ("/v2/models/spinning/infer_stream", {}, "spinning"),
        ("/v2/models/slow/infer", {"seconds": 600}, "infer"),
        ("/v2/models/slow/generate", {"seconds": 600}, "generate"),
    ],
)
def test_disconnect_ends_call(mounted: Host, path: str, request_: dict, name: str) -> None:
    mounted.leave_during(path, json.dumps(text(id=name, parameters=request_)).encode())
    eventually(lambda: mounted.noted(f"finally {name}"))
    assert not any(fault in mounted.text() for fault in ("in ASGI", "never retrieved", "ERROR"))


def test_connection_is_reused(mounted: Host) -> None:
    with httpx.Client(timeout=20) as client:
        for _ in range(3):
            response = client.post(f"{mounted.url}/v2/models/echo/infer", json=fp32([1.0]))
            assert response.status_code == 200


def test_websocket_carries_many_requests(mounted: Host) -> None:
    with talk(mounted, "streaming") as socket:
        ask(socket, text(id="one", parameters={"items": 2}))
        items = [answer(socket) for _ in range(3)]
        assert [said(item) for item in items[:2]] == ["item 0", "item 1"]
        assert items[2]["parameters"]["triton_final_response"]
        ask(socket, {"id": "two"})
        assert "error" in answer(socket)
        ask(socket, text(id="three", parameters={"items": 10**6, "delay": 0.01}))
        answer(socket)
        ask(socket, {"id": "three", "cancel": True})
        while "error" not in (last := answer(socket)):
            assert last["id"] == "three"
        eventually(lambda: mounted.noted("finally three"))


def test_websocket_feeds_call_and_signals_its_end(mounted: Host) -> None:
    with talk(mounted, "collecting") as socket:
        ask(socket, text("a", id="fed", part="first"))
        ask(socket, text("b", id="fed", part="last"))
        assert said(answer(socket)) == "a b"
    with talk(mounted, "streaming") as socket:
        ask(socket, text(id="left", parameters={"items": 10**6, "delay": 0.01}))
        answer(socket)
    eventually(lambda: mounted.noted("finally left"))


def test_websocket_to_missing_model_is_refused_like_http(mounted: Host) -> None:
    with pytest.raises(InvalidStatus) as refused, talk(mounted, "nobody"):
        pass
    assert refused.value.response.status_code == 404
    assert b"nobody" in refused.value.response.body


def test_stop_drains_unloads_and_ends_workers(server: str, workers: int, tmp_path: Path) -> None:
    mounted = host(server, "app", write_host(tmp_path), workers)
    assert mounted.infer("leaving", text()).status_code == 200
    below = pids_below(mounted.process.pid)
    assert len(below) >= workers
    body = json.dumps(text(id="late", parameters={"items": 10**6, "delay": 0.01}))
    url = f"{mounted.url}/v2/models/streaming/infer_stream"
    with httpx.stream("POST", url, content=body, timeout=20) as stream:
        next(stream.iter_lines())
        mounted.process.send_signal(signal.SIGTERM)
        mounted.process.wait(20)
    assert mounted.noted("finally late")
    assert mounted.noted("unloaded")
    eventually(lambda: not any(map(is_alive, below)))


def test_unstarted_application_reports_what_to_do(server: str, tmp_path: Path) -> None:
    mounted = host(server, "forgotten", write_host(tmp_path), 0)
    refused = mounted.infer("echo", fp32([1.0]))
    assert refused.status_code == 503
    assert "FastAPI(lifespan=application.lifespan)" in refused.json()["error"]
    with pytest.raises(InvalidStatus) as upgrade, talk(mounted, "echo"):
        pass
    assert upgrade.value.response.status_code == 503
    mounted.stop()


def test_standalone_application_is_started_by_server(server: str, tmp_path: Path) -> None:
    alone = host(server, "alone", write_host(tmp_path), 0, prefix="")
    assert alone.infer("echo", fp32([1.0])).status_code == 200
    alone.process.send_signal(signal.SIGTERM)
    alone.process.wait(20)
    assert alone.noted("unloaded")


def test_shadowed_route_is_an_error_at_startup(server: str, tmp_path: Path) -> None:
    models = write_host(tmp_path)
    with pytest.raises(AssertionError, match=r'route "/models/v2/\{what\}" hides "/models/v2/'):
        host(server, "hidden", models, 0)


@pytest.fixture(scope="module")
def services(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    models = write_host(tmp_path_factory.mktemp("services"))
    running = Host(models, workers, str(models.parent / "host.py"), "started")
    yield running
    assert running.stop() == 0, running.text()


def tensor(name: str, values: list) -> triton.InferInput:
    array = np.array(values, dtype=np.object_)
    found = triton.InferInput(name, list(array.shape), "BYTES")
    found.set_data_from_numpy(array)
    return found


def test_foreign_grpc_server_serves_our_services(services: Host) -> None:
    with triton.InferenceServerClient(services.grpc) as client:
        assert client.is_server_ready()
        assert client.is_model_ready("echo")
        answered = client.infer("echo", [tensor("text", ["hi"])])
        assert answered.as_numpy("text").tolist() == [b"hi"]
        with pytest.raises(triton.InferenceServerException, match="nobody"):
            client.infer("nobody", [tensor("text", ["hi"])])


def test_foreign_grpc_server_streams(services: Host) -> None:
    received: list = []
    with triton.InferenceServerClient(services.grpc) as client:
        client.start_stream(lambda result, error: received.append((result, error)))
        client.async_stream_infer(
            "streaming", [tensor("text", ["hi"])], request_id="s", parameters={"items": 3}
        )
        eventually(lambda: len(received) >= 3)
        client.stop_stream()
    assert [error for _, error in received] == [None] * len(received)
    assert [result.as_numpy("output")[0] for result, _ in received[:3]] == [b"item 0", b"item 1", b"item 2"]


def test_unstarted_services_are_unavailable(tmp_path: Path) -> None:
    models = write_host(tmp_path)
    running = Host(models, 0, str(tmp_path / "host.py"), "forgotten")
    with triton.InferenceServerClient(running.grpc) as client:
        with pytest.raises(triton.InferenceServerException, match="has not been started") as refused:
            client.infer("echo", [tensor("text", ["hi"])])
        assert refused.value.status() == "StatusCode.UNAVAILABLE"
    assert running.stop() == 0, running.text()


def test_example_serves_below_prefix(server: str, tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "mounted"
    (tmp_path / "host.py").write_text(
        (example / "app.py").read_text().replace("__file__", repr(str(example / "app.py")))
    )
    (tmp_path / "models").mkdir()
    mounted = host(server, "app", tmp_path / "models", 0)
    assert httpx.get(mounted.url.removesuffix("/models")).json() == {"models": "/models/v2"}
    url = f"{mounted.url}/v2/models/countdown/generate_stream"
    with httpx.Client(timeout=20) as client, connect_sse(client, "POST", url, json={"start": "2"}) as source:
        numbers = [json.loads(event.data)["output-0"] for event in source.iter_sse()]
    assert numbers == ["2", "1", "0"]
    mounted.stop()


SERVE = """
import numpy as np
import inferstream
from inferstream import MLModel, decode_args

class Double(MLModel):
    @decode_args
    async def predict(self, x: np.ndarray) -> np.ndarray:
        return 2 * x

inferstream.serve(Double, http_port=0, grpc_port=0, metrics_port=0)
print("and goes on")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_program_serves_its_class_until_signal(number: signal.Signals, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(SERVE)
    output = tmp_path / "output"
    with output.open("w") as file:
        process = subprocess.Popen([sys.executable, str(program)], stdout=file, stderr=subprocess.STDOUT)
    try:
        eventually(lambda: "gRPC  " in output.read_text() or process.poll() is not None)
        [rest] = [line for line in output.read_text().splitlines() if line.startswith("REST")]
        url = rest.split()[1].removesuffix("/docs")
        response = httpx.post(f"{url}/v2/models/Double/infer", json=fp32([1.0, 2.0]), timeout=20)
        assert response.json()["outputs"][0]["data"] == [2.0, 4.0]
        process.send_signal(number)
        assert process.wait(20) == 0, output.read_text()
    finally:
        process.kill()
    assert output.read_text().splitlines()[-1] == "and goes on"


def test_a_stream_is_resumed_and_released_below_the_prefix(mounted: Host) -> None:
    url = f"{mounted.url}/v2/models/streaming/infer_stream"

    def ids(method: str, count: int, **options: object) -> list[str]:
        """The first ids of a connection, which then breaks."""
        found: list[str] = []
        with httpx.stream(method, url, timeout=20, **options) as stream:
            assert stream.status_code == 200
            for line in stream.iter_lines():
                found += [line.removeprefix("id: ")] if line.startswith("id: ") else []
                if len(found) == count:
                    break
        return found

    asked = {**text("x"), "parameters": {"items": 10**6, "delay": 0.01}}
    first = ids("POST", 4, json=asked, headers={"prefer": "resumable"})
    rest = ids("GET", 3, headers={"last-event-id": first[-1]})
    numbers = [int(each.rpartition(":")[2]) for each in first + rest]
    assert numbers == list(range(7))
    last = {"last-event-id": rest[-1]}
    assert httpx.delete(url, headers=last, timeout=20).json() == {"cancelled": 1}
    assert httpx.get(url, headers=last, timeout=20).status_code == 410
    assert httpx.delete(f"{mounted.url}/v2/requests/unknown", timeout=20).status_code == 404
    assert "class Client" in httpx.get(f"{mounted.url}/inferstream.js", timeout=20).text
