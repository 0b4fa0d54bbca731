"""Front ends, workers and the supervisor end while others serve: nobody else notices, and nothing is left behind."""

import json
import os
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import grpc
import httpx
import pytest
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.frontends import MANY, clients, front_ends, spread, two, workers
from tests.serving import Running, eventually, fp32, text, write_model

COUNTING = """
from inferstream import MLModel, log
from inferstream.types import InferenceResponse
from prometheus_client import Counter

SEEN = Counter("seen_here", "Requests", ["model"])


class Model(MLModel):
    async def predict(self, payload):
        SEEN.labels(model=self.name).inc()
        log(seen_values=1.0)
        return InferenceResponse(model_name=self.name, outputs=[])
"""


def write(root: Path, **settings: int) -> Path:
    for name, model in (("echo", "Echo"), ("slow", "Slow"), ("streaming", "Streaming")):
        write_model(root, name, f"faulty_models.{model}", name=name)
    write_model(root, "counting", "counting.Model", COUNTING, name="counting")
    return two(root, **settings)


@pytest.fixture(scope="module")
def server(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One that loses front ends, and nothing else."""
    running = Running(write(tmp_path_factory.mktemp("losing") / "models", parallel_workers=workers))
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "models")


def counted(server: Running) -> list[float]:
    """Everything that has counted the calls of `counting`: our metrics, the model's logs, and its own counter."""
    return [
        server.metric("model_infer_request_success_total", model="counting"),
        server.metric("seen_values_count", model_name="counting"),
        server.metric("seen_here_total", model="counting"),
    ]


def kill_front_end(server: Running) -> int:
    [front_end] = front_ends(server)
    os.kill(front_end, signal.SIGKILL)
    return front_end


def test_killed_front_end_is_replaced_and_keeps_counters(server: Running) -> None:
    with clients(server) as opened:
        for client in opened:
            client.post("/v2/models/counting/infer", json=fp32([1.0])).raise_for_status()
        eventually(lambda: counted(server) == [MANY] * 3)
        [theirs] = spread(server, server.http_port)[1:]
        killed = kill_front_end(server)
        lost = 0
        for client in opened:
            try:
                assert client.post("/v2/models/counting/infer", json=fp32([1.0])).status_code == 200
            except httpx.TransportError:
                lost += 1
        assert lost <= theirs
        assert httpx.get(f"{server.url}/v2/health/ready").status_code == 200
    done = [2 * MANY - lost] * 3
    eventually(lambda: server.metric("inferstream_frontends") == 2, 15)
    eventually(lambda: counted(server) == done)
    assert server.metric("inferstream_frontends_lost_total") == 1
    assert killed not in front_ends(server)
    assert f"front end {killed} ended by SIGKILL" in server.text()
    with clients(server) as opened:
        for client in opened:
            client.post("/v2/models/counting/infer", json=fp32([1.0])).raise_for_status()
    eventually(lambda: counted(server) == [count + MANY for count in done])


def _metric(server: Running, name: str) -> float | None:
    """A meter; None where the system gave the connection to the front end that has just been killed."""
    try:
        return server.metric(name)
    except httpx.TransportError:
        return None


def test_late_front_end_serves_same_models(server: Running) -> None:
    write_model(server.folder, "late", "faulty_models.Echo", name="late")
    httpx.post(f"{server.url}/v2/repository/models/late/load", timeout=20).raise_for_status()
    httpx.post(f"{server.url}/v2/repository/models/echo/unload", timeout=20).raise_for_status()
    started = server.metric("inferstream_frontends_started_total")
    kill_front_end(server)
    eventually(lambda: _metric(server, "inferstream_frontends_started_total") == started + 1)
    eventually(lambda: server.metric("inferstream_frontends") == 2, 15)
    with clients(server) as opened:
        for name, status in (("late", 200), ("echo", 404)):
            answers = [c.post(f"/v2/models/{name}/infer", json=fp32([1.0])) for c in opened]
            assert {answer.status_code for answer in answers} == {status}


def test_shared_worker_crash_ends_every_call_once(start, folder: Path) -> None:
    server = start(folder, INFERSTREAM_PARALLEL_WORKERS="2")
    before = workers(server)
    assert len(before) == 2
    with clients(server) as opened, ThreadPoolExecutor(MANY) as pool:

        def ask(i: int) -> httpx.Response:
            return opened[i % MANY].post("/v2/models/echo/infer", json=fp32([float(i)], id=str(i)))

        answers = [pool.submit(ask, i) for i in range(20 * MANY)]
        eventually(lambda: sum(answer.done() for answer in answers) > 2 * MANY)
        os.kill(before[0], signal.SIGKILL)
        found = [answer.result() for answer in answers]
        statuses = Counter(answer.status_code for answer in found)
        assert set(statuses) <= {200, 503}
        for i, answer in enumerate(found):
            if answer.status_code == 200:
                assert answer.json()["id"] == str(i)
                assert answer.json()["outputs"][0]["data"] == [float(i)]
        assert server.metric("model_infer_request_success_total", model="echo") == statuses[200]
        eventually(lambda: len(workers(server)) == 2 and before[0] not in workers(server), 15)
        eventually(lambda: server.metric("inferstream_workers") == 2)
        os.kill(before[1], signal.SIGKILL)  # what both are given now runs in the new one alone
        eventually(
            lambda: all(c.post("/v2/models/echo/infer", json=fp32([1.0])).is_success for c in opened), 15
        )


def test_streams_in_all_front_ends_finish_before_exit(serve, folder: Path) -> None:
    server = serve(folder)
    body = text(parameters={"items": 6, "delay": 0.2})
    request = ModelInferRequest(model_name="streaming", id="grpc")
    request.parameters["items"].int64_param = 6
    request.parameters["delay"].double_param = 0.2
    url = f"ws://127.0.0.1:{server.http_port}/v2/models/streaming/stream"
    with ExitStack() as stack, ThreadPoolExecutor(2 * MANY) as pool:
        opened = stack.enter_context(clients(server))
        sse = [
            pool.submit(client.post, "/v2/models/streaming/generate_stream", json={**body, "id": f"sse {i}"})
            for i, client in enumerate(opened)
        ]
        sockets = [stack.enter_context(connect(url, open_timeout=20)) for _ in range(8)]
        for i, one in enumerate(sockets):
            one.send(json.dumps({**body, "id": f"ws {i}"}))
        options = [("grpc.use_local_subchannel_pool", 1)]
        channels = [
            stack.enter_context(grpc.insecure_channel(server.grpc, [*options, ("test.number", i)]))
            for i in range(8)
        ]
        streams = [
            pool.submit(list, GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([request]), timeout=20))
            for channel in channels
        ]
        names = [f"sse {i}" for i in range(MANY)] + [f"ws {i}" for i in range(8)] + ["grpc"]
        eventually(lambda: all(server.noted(f"start {name}") for name in names))
        eventually(lambda: server.log.read_text().count("start grpc") == 8)
        assert all(spread(server, server.http_port))
        server.process.send_signal(signal.SIGTERM)
        for answer in sse:
            assert answer.result().text.count("item ") == 6
            assert "event: error" not in answer.result().text
        for one in sockets:
            said = [json.loads(one.recv(timeout=10)) for _ in range(6)]
            assert [answer["outputs"][0]["data"] for answer in said] == [[f"item {i}"] for i in range(6)]
        for stream in streams:
            assert len(stream.result()) == 6
    assert server.process.wait(30) == 0


def test_ctrl_c_stops_all_front_ends_gracefully(start, folder: Path) -> None:
    server = start(folder)
    [front_end] = front_ends(server)
    with ThreadPoolExecutor(8) as pool:
        slow = [
            pool.submit(server.infer, "slow", text(id=f"c{i}", parameters={"seconds": 1})) for i in range(8)
        ]
        eventually(lambda: all(server.noted(f"start c{i}") for i in range(8)))
        os.kill(front_end, signal.SIGINT)
        server.process.send_signal(signal.SIGINT)
        assert {call.result().status_code for call in slow} == {200}
    assert server.process.wait(30) == 0
    assert "ended by" not in server.text()


def test_killed_server_leaves_no_processes(start, folder: Path) -> None:
    server = start(folder, INFERSTREAM_PARALLEL_WORKERS="2")
    children = server.workers()
    server.process.kill()
    server.process.wait(30)
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))
    for port in (server.http_port, server.grpc_port, server.metrics_port):
        with socket.socket() as free:
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as any server does
            free.bind(("127.0.0.1", port))
            free.listen()


ONCE = """
import os
from pathlib import Path

from inferstream import MLModel

# The first process has it; every other one dies of it, before it serves.
try:
    os.close(os.open(Path(os.environ["TEST_LOG"]).with_name("taken"), os.O_CREAT | os.O_EXCL))
except FileExistsError:
    os._exit(3)


class Model(MLModel):
    async def predict(self, payload):
        raise NotImplementedError
"""


def test_front_end_that_fails_to_start_aborts_startup(tmp_path: Path) -> None:
    write_model(tmp_path / "models", "once", "once.Model", ONCE)
    running = Running(two(tmp_path / "models"), wait=False)
    assert running.process.wait(40) == 1, running.text()
    assert "error: A front end ended before it served, 4 times in a row; the log says how." in running.text()
    assert running.text().count("exited with status 3") == 4, running.text()
    assert "Traceback" not in running.text()
