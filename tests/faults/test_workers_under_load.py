"""Workers that stop or die while much is in flight: every call ends once, with its own answer or a 503 or 504."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as triton

from tests.faults.test_workers import healed
from tests.serving import Running, eventually, fp32, write_model

BIG = 4 * 1024 * 1024
"""Values of FP32 in a tensor of 16 MB."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    folder = tmp_path / "models"
    write_model(folder, "echo", "faulty_models.Echo", name="echo")
    write_model(folder, "limited", "faulty_models.Echo", name="limited", request_timeout=1)
    write_model(folder, "late", "faulty_models.Late", name="late")
    running = Running(folder, INFERSTREAM_PARALLEL_WORKERS="2")
    yield running
    assert running.stop() == 0


def test_worker_stopped_under_load_is_replaced_and_calls_end(server: Running) -> None:
    before = server.workers()
    with ThreadPoolExecutor(16) as pool:
        ask = lambda i: server.infer("limited", fp32([float(i)], id=str(i)))  # noqa: E731
        calls = [pool.submit(ask, i) for i in range(100)]
        eventually(lambda: any(call.done() for call in calls))
        os.kill(before[0], signal.SIGSTOP)
        calls += [pool.submit(ask, i) for i in range(100, 400)]
        answers = [call.result() for call in calls]
    for i, answer in enumerate(answers):
        assert answer.status_code in (200, 504), answer.text
        if answer.status_code == 200:
            assert answer.json()["id"] == str(i)
            assert answer.json()["outputs"][0]["data"] == [float(i)]
    # The stopped worker takes a share while nobody knows; then the calls go where the fewest are.
    assert Counter(answer.status_code for answer in answers)[504] <= 16
    healed(server, before)
    eventually(lambda: before[0] not in server.workers(), 15)


def test_large_tensors_on_killed_worker_are_complete_or_lost(server: Running) -> None:
    before = server.workers()

    def ask(seed: int) -> str:
        values = np.random.default_rng(seed).random(BIG, dtype=np.float32)
        sent = triton.InferInput("x", [BIG], "FP32").set_data_from_numpy(values)
        with triton.InferenceServerClient(server.url.removeprefix("http://"), network_timeout=60) as client:
            try:
                answer = client.infer("late", [sent])
            except triton.InferenceServerException as error:
                return f"{error.status()} {error.message()[-50:]}"
            assert np.array_equal(answer.as_numpy("x"), values)
            return "200"

    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(ask, i) for i in range(24)]
        eventually(lambda: any(call.done() for call in calls), 30)
        started = server.log.read_text().count(f"start {before[0]}")
        eventually(lambda: server.log.read_text().count(f"start {before[0]}") > started, 30)
        os.kill(before[0], signal.SIGKILL)
        ends = Counter(call.result() for call in calls)
    assert ends.pop("200") >= 16
    assert all("503 " in end and "SIGKILL" in end for end in ends), ends
    assert ends, "none was in flight on the worker that was killed"
    healed(server, before)
