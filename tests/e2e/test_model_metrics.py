"""Metrics that model code makes with `prometheus_client` itself are on the metrics page, workers or not."""

import os
import signal
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.disks import small_disk
from tests.serving import Running, eventually, text, write_model

CODE = """
import os
from mlserver import MLModel
from mlserver.codecs import StringCodec
from mlserver.types import InferenceResponse
from prometheus_client import Counter, Gauge, Histogram

ASKED = Counter("model_own_asked", "Requests by what they said", ["said"])
LENGTH = Histogram("model_own_length", "Lengths of texts", buckets=[1, 10])
LAST = Gauge("model_own_last", "Length of the latest text", multiprocess_mode="max")


class Counting(MLModel):
    async def predict(self, payload):
        said = self.decode(payload.inputs[0], default_codec=StringCodec)[0]
        ASKED.labels(said).inc()
        LENGTH.observe(len(said))
        LAST.set(len(said))
        answer = StringCodec.encode_output("pid", [str(os.getpid())])
        return InferenceResponse(model_name=self.name, outputs=[answer])
"""


@pytest.fixture
def counting(serve, tmp_path: Path) -> Running:
    write_model(tmp_path / "models", "counting", "counting.Counting", CODE, name="counting")
    server: Running = serve(tmp_path / "models", MLSERVER_METRICS_DIR=str(tmp_path / "metrics"))
    return server


def ask(server: Running, times: int) -> set[int]:
    """The processes that have answered."""
    answers = [server.infer("counting", text("hello")).json() for _ in range(times)]
    return {int(answer["outputs"][0]["data"][0]) for answer in answers}


def test_counters_histograms_and_gauges_are_scraped(counting: Running, workers: int) -> None:
    assert len(ask(counting, 10)) == max(workers, 1)
    assert counting.metric("model_own_asked_total", said="hello") == 10
    assert counting.metric("model_own_length_count") == 10
    assert counting.metric("model_own_length_bucket", le="10.0") == 10
    assert counting.metric("model_own_last") == 5
    page = httpx.get(f"{counting.url}/metrics").text
    names = [family.name for family in text_string_to_metric_families(page)]
    assert len(set(names)) == len(names)


def test_counters_survive_worker_and_model(counting: Running, workers: int, tmp_path: Path) -> None:
    ask(counting, 6)
    if workers:
        for pid in counting.workers():
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: counting.infer("counting", text("back")).status_code == 200, 20)
        assert counting.metric("model_own_asked_total", said="hello") == 6
    ask(counting, 2)
    assert counting.metric("model_own_asked_total", said="hello") == 8
    assert httpx.post(f"{counting.url}/v2/repository/models/counting/unload", timeout=30).status_code == 200
    assert counting.metric("model_own_asked_total", said="hello") == 8
    assert counting.stop() == 0
    assert not (tmp_path / "metrics").exists() or not list((tmp_path / "metrics").iterdir())


def test_full_metrics_dir_ends_no_worker(start, tmp_path: Path) -> None:
    write_model(tmp_path / "models", "counting", "counting.Counting", CODE, name="counting")
    with small_disk(tmp_path / "disk", "600k") as disk:
        settings = {"MLSERVER_METRICS_DIR": str(disk), "MLSERVER_PARALLEL_WORKERS": "2"}
        server: Running = start(tmp_path / "models", **settings)
        workers = server.workers()
        said = [f"{i} {'x' * 2000}" for i in range(300)]
        assert {server.infer("counting", text(each)).status_code for each in said} == {200}
        assert server.workers() == workers
        assert server.text().count("are no longer shown (setting metrics_dir): No space left") == 2
        assert server.metric("model_own_asked_total", said=said[0]) == 1
        assert server.stop() == 0
