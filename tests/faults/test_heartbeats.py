"""Workers that a signal has stopped are replaced; those whose code holds the interpreter lock are not."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import httpx
import pytest

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, eventually, fp32, text, write_model

HEARTBEAT = 0.05
STOPPED = "The worker process that ran this request was stopped for 0.5 s and then killed."
HOLDING = """
import ctypes, re, time
from inferstream import MLModel
from faulty_models import option

HELD = 30 * 0.05

class Holding(MLModel):
    "Holds the interpreter lock for thirty heartbeats, asleep or computing."
    async def predict(self, payload):
        if option(payload, "mode", "") == "asleep":
            ctypes.PyDLL(None).usleep(int(HELD * 1e6))
        else:
            letters, held = 16, 0.0
            while held < HELD:
                letters += 1
                began = time.monotonic()
                re.match("(a+)+b", "a" * letters)
                held = time.monotonic() - began
        return self.encode_response(["done"])
"""


@pytest.fixture(scope="module")
def beating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    models = tmp_path_factory.mktemp("beating") / "models"
    for name, implementation in {"echo": "Echo", "slow": "Slow", "streaming": "Streaming"}.items():
        write_model(models, name, f"faulty_models.{implementation}", name=name)
    write_model(models, "holding", "faulty_models.Echo")
    write_model(models, "holding", "holding.Holding", HOLDING, name="holding")
    (models / "settings.json").write_text(f'{{"parallel_workers": 2, "worker_heartbeat": {HEARTBEAT}}}')
    running = Running(models)
    yield running
    assert running.stop() == 0, running.text()


def over_grpc(server: Running, seconds: int) -> grpc.RpcError:
    message = ModelInferRequest(model_name="slow", id="rpc")
    message.parameters["seconds"].int64_param = seconds
    message.inputs.add(name="text", datatype="BYTES", shape=[1]).contents.bytes_contents.append(b"x")
    with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError) as failed:
        GRPCInferenceServiceStub(channel).ModelInfer(message, timeout=60)
    return failed.value


def test_stopped_worker_is_replaced_and_calls_fail_with_reason(beating: Running) -> None:
    before = beating.workers()
    with ThreadPoolExecutor(8) as pool:
        long = {"seconds": 600}
        whole = [pool.submit(beating.infer, "slow", text(id="w", parameters=long)) for _ in range(2)]
        streams = [
            pool.submit(
                beating.infer,
                "streaming",
                text(id="s", parameters={"items": 600, "delay": 1}),
                "infer_stream",
            )
            for _ in range(2)
        ]
        rpcs = [pool.submit(over_grpc, beating, 600) for _ in range(2)]
        eventually(lambda: beating.log.read_text().count("start ") == 6)
        for pid in before:
            os.kill(pid, signal.SIGSTOP)
        unstarted = pool.submit(beating.infer, "echo", text())
        for call in whole:
            answer = call.result()
            assert (answer.status_code, answer.json()["error"]) == (503, STOPPED)
            assert answer.headers["retry-after"]
        for stream in streams:
            last = stream.result().text.strip().rpartition("\n\n")[2]
            assert STOPPED in last
            assert "event: error" in last
        for rpc in rpcs:
            error = rpc.result()
            assert (error.code(), error.details()) == (grpc.StatusCode.UNAVAILABLE, STOPPED)
        assert unstarted.result().status_code in (200, 503), "it runs in another worker, if there is one"
    eventually(lambda: len(beating.workers()) == 2 and not set(before) & set(beating.workers()))
    eventually(lambda: httpx.get(f"{beating.url}/v2/health/ready").status_code == 200)
    assert beating.text().count("was stopped for 0.5 s and then killed; starting another") == 2
    eventually(lambda: beating.infer("echo", fp32([1.0])).status_code == 200)
    beating.probe()


def both_workers(server: Running) -> list[int]:
    """The workers, when both are there and a model is in one of them: the server is ready before each model is back.

    The kernel may leave a child out of its list while another one ends.
    """
    for model in ("holding", "slow"):
        eventually(lambda: httpx.get(f"{server.url}/v2/models/{model}/ready").status_code == 200)  # noqa: B023
    eventually(lambda: len(server.workers()) == 2)
    return server.workers()


@pytest.mark.parametrize("mode", ["asleep", "computing"])
def test_holding_the_gil_is_not_a_missed_heartbeat(beating: Running, mode: str) -> None:
    before = both_workers(beating)
    answer = beating.infer("holding", text(parameters={"mode": mode}))
    assert answer.status_code == 200, answer.text
    eventually(lambda: beating.workers() == before)


def test_worker_that_resumes_in_time_is_kept(beating: Running) -> None:
    before = both_workers(beating)
    os.kill(before[0], signal.SIGSTOP)
    os.kill(before[0], signal.SIGCONT)
    answers = [beating.infer("slow", text(parameters={"seconds": 12 * HEARTBEAT})) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    eventually(lambda: beating.workers() == before)
