"""Workers that die, hang, flood and misbehave: every request ends once, and the pool comes back."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import grpc
import httpx
import pytest

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.faults.test_streaming import Stream
from tests.serving import Running, eventually, fp32, text, write_model

MODELS = {
    "echo": "Echo",
    "slow": "Slow",
    "streaming": "Streaming",
    "deadly": "Deadly",
    "hung": "Hung",
    "where": "Where",
    "patient": "Patient",
    "failing": "Failing",
    "collecting": "Collecting",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, implementation in MODELS.items():
        settings = {"request_timeout": 0.5} if name == "hung" else {}
        write_model(tmp_path / "models", name, f"faulty_models.{implementation}", name=name, **settings)
    return tmp_path / "models"


@pytest.fixture
def started(folder: Path) -> Iterator[object]:
    running: list[Running] = []

    def start(workers: int = 2, **settings) -> Running:
        (folder / "settings.json").write_text(json.dumps({"parallel_workers": workers, **settings}))
        running.append(Running(folder))
        return running[-1]

    yield start
    for server in running:
        server.stop()


def healed(server: Running, before: list[int], workers: int = 2) -> None:
    """The pool is full again, with nothing left of what was killed."""
    eventually(lambda: server.metric("inferstream_workers") == workers)
    eventually(lambda: len(server.workers()) == workers and server.workers() != before)
    eventually(lambda: httpx.get(f"{server.url}/v2/health/ready").status_code == 200)
    server.probe()


def submit(pool: ThreadPoolExecutor, server: Running, names: list[str], seconds: float) -> list[Future]:
    calls = [
        pool.submit(server.infer, "slow", text(id=name, parameters={"seconds": seconds})) for name in names
    ]
    eventually(lambda: all(server.noted(f"start {name}") for name in names))
    return calls


def test_killed_worker_fails_only_its_running_calls(started) -> None:
    server = started()
    before = server.workers()
    with ThreadPoolExecutor(8) as pool:
        calls = submit(pool, server, [f"k{i}" for i in range(6)], 2)

        os.kill(before[0], signal.SIGKILL)
        killed = time.monotonic()
        answers = [call.result() for call in calls]

    statuses = [answer.status_code for answer in answers]
    assert sorted(statuses) == [200] * 3 + [503] * 3
    for answer in answers:
        if answer.status_code == 503:
            assert answer.headers["retry-after"]
            assert "SIGKILL" in answer.json()["error"]
            assert answer.elapsed.total_seconds() < time.monotonic() - killed + 1
    healed(server, before)
    assert server.metric("inferstream_workers_lost_total") == 1


@pytest.mark.parametrize("mode", ["exit", "segfault", "kill", "close"])
def test_model_that_exits_gets_error_and_new_process(started, mode: str) -> None:
    server = started()
    before = server.workers()
    answer = server.infer("deadly", text(id="d", parameters={"mode": mode}))
    assert answer.status_code == 503, answer.text
    assert "worker process" in answer.json()["error"]
    assert server.log.read_text().count("start d\n") == 1, "what has started is not run again"
    healed(server, before)


def test_no_workers_is_503_and_not_ready_until_restart(started) -> None:
    server = started()
    before = server.workers()
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: httpx.get(f"{server.url}/v2/health/ready").status_code == 503)
    seen = set()
    until = time.monotonic() + 5
    while (status := server.infer("echo", fp32([1.0])).status_code) != 200:
        seen.add(status)
        assert time.monotonic() < until
    assert seen <= {503}
    healed(server, before)


def test_killed_worker_ends_stream_with_error(started) -> None:
    server = started(workers=1)
    with httpx.stream(
        "POST",
        f"{server.url}/v2/models/streaming/generate_stream",
        json=text(id="s", parameters={"items": 1000, "delay": 0.01}),
        timeout=10,
    ) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("data: ")
        rpc = Stream(server, "grpc", "streaming", id="g", items=1000, delay=0.01)
        next(rpc.items)
        os.kill(server.workers()[0], signal.SIGKILL)
        rest = "\n".join(lines)
    assert "event: error" in rest
    assert '"code":"worker_lost"' in rest
    with pytest.raises(grpc.RpcError) as failure:
        list(rpc.items)
    assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
    rpc.close()


def test_calls_queued_in_dead_worker_run_in_another(started, folder) -> None:
    write_model(folder, "where", "faulty_models.Where", name="where", worker_concurrency=1, max_concurrency=8)
    server = started()
    with ThreadPoolExecutor(8) as pool:
        calls = [
            pool.submit(server.infer, "where", text(id=f"w{i}", parameters={"seconds": 1})) for i in range(6)
        ]
        eventually(lambda: server.metric("inferstream_calls_in_progress", model="where") == 6)
        eventually(lambda: server.log.read_text().count("start") == 2)
        os.kill(server.workers()[0], signal.SIGKILL)
        statuses = sorted(call.result().status_code for call in calls)
    assert statuses == [200] * 5 + [503]
    assert server.metric("inferstream_calls_retried_total") == 2


def test_hung_model_is_504_and_its_worker_is_replaced(started) -> None:
    server = started()
    before = server.workers()
    with ThreadPoolExecutor(8) as pool:
        others = submit(pool, server, [f"o{i}" for i in range(4)], 3)
        assert server.infer("hung", text(id="h")).status_code == 504
        assert [call.result().status_code for call in others] == [200] * 4
    healed(server, before)
    assert "does not end; replacing it" in server.text()
    assert server.infer("hung", text(parameters={"mode": "awake"})).status_code == 200


def test_worker_with_blocked_event_loop_is_replaced(started, folder) -> None:
    write_model(folder, "deadly", "faulty_models.Deadly", name="deadly", request_timeout=0.5)
    server = started()
    before = server.workers()
    assert server.infer("deadly", text(parameters={"mode": "block"})).status_code == 504
    healed(server, before)
    for _ in range(10):
        server.probe()


def test_health_responds_quickly_under_cpu_load(started) -> None:
    server = started()
    with ThreadPoolExecutor(8) as pool:
        url = f"{server.url}/v2/models/patient/infer"
        calls = [pool.submit(httpx.post, url, json=text(id=f"p{i}"), timeout=6) for i in range(2)]
        eventually(lambda: server.log.read_text().count("start p") == 2)
        for _ in range(20):
            assert httpx.get(f"{server.url}/v2/health/live", timeout=5).status_code == 200
        for call in calls:
            assert isinstance(call.exception(), httpx.ReadTimeout)


@pytest.mark.parametrize("workers", [0, 2])
def test_blocking_code_can_detect_cancellation(started, workers: int) -> None:
    server = started(workers)
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{server.url}/v2/models/patient/infer", json=text(id="left"), timeout=2)
    eventually(lambda: server.noted("stopped left"))
    late = server.infer("patient", text(id="late"), headers={"X-Request-Timeout": "0.2"})
    assert late.status_code == 504
    eventually(lambda: server.noted("stopped late"))
    assert server.noted("start late True")
    assert server.noted("start left False")


def test_output_flood_does_not_block(started) -> None:
    server = started()
    assert server.infer("deadly", text(parameters={"mode": "flood"})).status_code == 200
    server.probe()


def test_out_of_memory_fails_only_its_request(started) -> None:
    server = started()
    answer = server.infer("deadly", text(parameters={"mode": "memory"}))
    assert answer.status_code in (500, 503)
    server.probe()


def test_child_processes_end_with_worker(started) -> None:
    server = started()
    answer = server.infer("deadly", text(parameters={"mode": "child"}))
    child = int(answer.json()["outputs"][0]["data"][0])
    assert Path(f"/proc/{child}").exists()
    server.stop()
    eventually(lambda: not Path(f"/proc/{child}").exists() or _state(child) == "Z")


def test_workers_end_with_server(started) -> None:
    server = started()
    blocked = server.workers()
    with ThreadPoolExecutor(2) as pool:
        for _ in range(2):
            pool.submit(
                httpx.post, f"{server.url}/v2/models/deadly/infer", json=text(parameters={"mode": "block"})
            )
        eventually(lambda: server.log.read_text().count("start") == 2)
        server.process.kill()
        server.process.wait()
        eventually(lambda: all(not Path(f"/proc/{pid}").exists() or _state(pid) == "Z" for pid in blocked))


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "Z"


def test_killing_workers_leaks_no_descriptors(started) -> None:
    server = started(workers=1)
    descriptors = lambda: len(os.listdir(f"/proc/{server.process.pid}/fd"))  # noqa: E731
    server.probe()
    counts = []
    for _ in range(6):
        (pid,) = eventually(server.workers)
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: server.workers() not in ([], [pid]), 10)  # noqa: B023
        eventually(lambda: server.infer("echo", fp32([1.0])).status_code == 200)
        counts.append(descriptors())
    assert max(counts[2:]) <= counts[1] + 2


def test_large_tensors_use_and_release_shared_memory(started) -> None:
    server = started(workers=1)
    values = [float(i % 1000) for i in range(200_000)]
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(server.infer, "echo", fp32(values)) for _ in range(40)]
        for call in calls:
            assert call.result().json()["outputs"][0]["data"] == values
    memory = [
        link
        for link in Path(f"/proc/{server.process.pid}/map_files").iterdir()
        if "memfd" in str(link.resolve())
    ]
    assert memory or not os.access(f"/proc/{server.process.pid}/map_files", os.R_OK)


def test_import_failure_is_reported_without_restart_loop(started, folder) -> None:
    write_model(folder, "broken", "broken.Model", "import nothing_like_it")
    server = started()
    index = httpx.post(f"{server.url}/v2/repository/index").json()
    (broken,) = [entry for entry in index if entry["name"] == "broken"]
    assert broken["state"] == "UNAVAILABLE"
    assert "nothing_like_it" in broken["reason"]
    assert httpx.get(f"{server.url}/v2/health/ready").status_code == 503
    assert server.metric("inferstream_workers_started_total") == 2
    server.probe()


def test_crash_during_load_is_isolated(started, folder) -> None:
    crash = "import os\nfrom inferstream import MLModel\nclass Model(MLModel):\n    async def load(self):\n        os._exit(7)\n"
    server = started(load_models_at_startup=True)
    write_model(folder, "crashing", "crashing.Model", crash)
    answer = httpx.post(f"{server.url}/v2/repository/models/crashing/load", timeout=20)
    assert answer.status_code == 500
    assert "exited with status 7" in answer.json()["error"]
    server.probe()
    eventually(lambda: server.metric("inferstream_workers") == 2)
    assert server.metric("inferstream_workers_lost_total") == 1
    assert httpx.get(f"{server.url}/v2/health/ready").status_code == 200


def test_failed_reload_keeps_old_version_and_calls(started, folder) -> None:
    server = started()
    with ThreadPoolExecutor(2) as pool:
        running = submit(pool, server, ["old"], 2)
        write_model(folder, "slow", "broken.Model", "import nothing_like_it", name="slow")
        failed = httpx.post(f"{server.url}/v2/repository/models/slow/load", timeout=20)
        assert failed.status_code == 500
        assert server.infer("slow", text(parameters={"seconds": 0})).status_code == 200
        assert running[0].result().status_code == 200


def test_model_readiness_is_reported(started, folder) -> None:
    write_model(folder, "moody", "faulty_models.Moody", name="moody", parallel_workers=1)
    server = started(workers=0)
    assert server.infer("moody", text()).status_code == 200
    eventually(lambda: httpx.get(f"{server.url}/v2/models/moody/ready").status_code == 503)
    assert server.infer("moody", text()).status_code == 503


def test_models_can_have_own_workers_and_devices(started, folder) -> None:
    write_model(
        folder, "devices", "faulty_models.Where", name="devices", parallel_workers=2, devices=["0", "1"]
    )
    server = started(workers=0)
    assert len(server.workers()) == 2
    found = set()
    for _ in range(4):
        pid, device, _ = server.infer("devices", text()).json()["outputs"][0]["data"]
        found.add((int(pid), device))
    assert {pid for pid, _ in found} == set(server.workers())
    assert {device for _, device in found} == {"0", "1"}
    pid = server.infer("where", text()).json()["outputs"][0]["data"][0]
    assert int(pid) == server.process.pid


def test_each_device_gets_a_worker_and_auto_uses_server_devices(folder: Path) -> None:
    write_model(folder, "named", "faulty_models.Where", name="named", devices=["0", "MIG-a", "0"])
    write_model(folder, "auto", "faulty_models.Where", name="auto", devices="auto", parallel_workers=4)
    write_model(folder, "none", "faulty_models.Where", name="none", devices=["0"], parallel_workers=0)
    server = Running(folder, CUDA_VISIBLE_DEVICES="1,MIG-b")
    used: dict[str, dict[str, str]] = {"named": {}, "auto": {}}
    try:
        for model, devices in used.items():
            for _ in range(8):
                pid, device, _ = server.infer(model, text()).json()["outputs"][0]["data"]
                devices[pid] = device
        index = httpx.post(f"{server.url}/v2/repository/index", json={}).json()
    finally:
        server.stop()
    assert sorted(used["named"].values()) == ["0", "0", "MIG-a"]
    assert sorted(used["auto"].values()) == ["1", "1", "MIG-b", "MIG-b"]
    assert [each["reason"] for each in index if each["name"] == "none"] == [
        "Model none did not load: devices are those of worker processes, and its parallel_workers is 0."
    ]


def test_models_with_same_pool_share_workers(started, folder) -> None:
    for name, pool in (("left", "vision"), ("right", "vision"), ("other", "speech")):
        parameters = {"inference_pool_gid": pool}
        write_model(folder, name, "faulty_models.Where", name=name, parameters=parameters)
    for name in ("alone", "apart"):
        parameters = {"autogenerate_inference_pool_gid": True}
        write_model(folder, name, "faulty_models.Where", name=name, parameters=parameters)
    server = started(workers=1)
    pids = {
        name: server.infer(name, text()).json()["outputs"][0]["data"][0]
        for name in ("where", "left", "right", "other", "alone", "apart")
    }
    assert len(server.workers()) == 5
    assert pids["left"] == pids["right"]
    assert len(set(pids.values())) == 5


def test_model_runs_in_its_packed_environment(started, folder, tmp_path) -> None:
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--copies", "--without-pip", environment], check=True)
    packages = next((environment / "lib").glob("python*")) / "site-packages"
    (packages / "only_here.py").write_text("WORD = 'brought along'")
    code = (
        "from inferstream import MLModel\nfrom inferstream.codecs import StringCodec\n"
        "from inferstream.types import InferenceResponse\nimport only_here, sys\n"
        "class Model(MLModel):\n"
        "    async def predict(self, payload):\n"
        "        said = StringCodec.encode_output('said', [only_here.WORD, sys.prefix])\n"
        "        return InferenceResponse(model_name=self.name, outputs=[said])\n"
    )
    tarball = write_model(
        folder,
        "brings",
        "brings.Model",
        code,
        name="brings",
        parameters={"environment_tarball": "env.tar.gz"},
    )
    subprocess.run(["tar", "-czf", tarball / "env.tar.gz", "-C", environment, "."], check=True)
    write_model(
        folder,
        "beside",
        "beside.Model",
        code,
        name="beside",
        parameters={"environment_path": str(environment)},
    )
    server = started(workers=0, environments_dir=str(tmp_path / "unpacked"))
    for model in ("brings", "beside"):
        word, prefix = server.infer(model, text()).json()["outputs"][0]["data"]
        assert word == "brought along"
        assert prefix != sys.prefix
    assert len(list((tmp_path / "unpacked").iterdir())) == 1


def test_bidirectional_stream_in_worker_is_read_at_model_speed(started) -> None:
    server = started()
    sent = []

    def requests() -> Iterator[ModelInferRequest]:
        for i in range(200):
            message = ModelInferRequest(model_name="collecting", id="bidi")
            tensor = message.inputs.add(name="text", datatype="BYTES", shape=[1])
            tensor.contents.bytes_contents.append(f"w{i}".encode())
            sent.append(i)
            yield message

    with grpc.insecure_channel(server.grpc) as channel:
        (answer,) = GRPCInferenceServiceStub(channel).ModelStreamInfer(requests())
    assert answer.outputs[0].contents.bytes_contents[0].decode().split() == [f"w{i}" for i in range(200)]


def test_drain_with_workers_finishes_calls_quickly(started) -> None:
    server = started()
    with ThreadPoolExecutor(10) as pool:
        calls = submit(pool, server, [f"t{i}" for i in range(10)], 2)
        server.process.send_signal(signal.SIGTERM)
        assert [call.result().status_code for call in calls] == [200] * 10
        assert server.process.wait(30) == 0


def test_hung_worker_does_not_block_exit(started) -> None:
    server = started(shutdown_grace=0.5)
    with ThreadPoolExecutor(2) as pool:
        for _ in range(2):
            pool.submit(server.infer, "deadly", text(parameters={"mode": "block"}))
        eventually(lambda: server.log.read_text().count("start") == 2)
        workers = server.workers()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) is not None
    eventually(lambda: all(not Path(f"/proc/{pid}").exists() for pid in workers))


def test_second_interrupt_ends_workers(started) -> None:
    server = started()
    workers = server.workers()
    with ThreadPoolExecutor(1) as pool:
        submit(pool, server, ["i"], 20)
        server.process.send_signal(signal.SIGINT)
        eventually(lambda: httpx.get(f"{server.url}/v2/health/ready").status_code == 503)
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(20) == 130
    eventually(lambda: all(not Path(f"/proc/{pid}").exists() or _state(pid) == "Z" for pid in workers))


def test_blocking_generator_does_not_stop_others_in_its_worker(started, folder) -> None:
    write_model(folder, "blocking-stream", "faulty_models.BlockingStream", name="blocking-stream")
    server = started(workers=1, shutdown_grace=0.5)
    with ThreadPoolExecutor() as pool:
        body = text(id="blocks", parameters={"items": 1, "delay": 60})
        waits = pool.submit(server.infer, "blocking-stream", body, "generate_stream")
        eventually(lambda: server.noted("start blocks"))
        for transport in ("sse", "ws", "grpc"):
            other = Stream(server, transport, "streaming", id=f"beside {transport}", items=3)
            assert len(list(other.items)) == 3
            other.close()
        assert not waits.done()
        server.stop()
