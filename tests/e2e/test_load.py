"""The load that others route and scale on, with calls that are held over two front ends and two workers."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.frontends import MANY, clients, two
from tests.serving import Running, eventually, write_model

CODE = """
import asyncio
import os
from pathlib import Path

from inferstream import MLModel
from inferstream.types import InferenceResponse


class Held(MLModel):
    async def load(self):
        try:  # the caches of two workers differ
            Path(os.environ["TEST_LOG"] + ".first").touch(exist_ok=False)
            self.kv_usage = 0.25
        except FileExistsError:
            self.kv_usage = 0.75
        return True

    async def predict(self, payload):
        while not Path(os.environ["TEST_LOG"] + ".open").exists():
            await asyncio.sleep(0.01)
        return InferenceResponse(model_name=self.name, outputs=[])


class Plain(Held):
    async def load(self):
        return True
"""
ALIASES = {
    "vllm:num_requests_waiting": "inferstream_waiting",
    "vllm:num_requests_running": "inferstream_running",
    "vllm:kv_cache_usage_perc": "inferstream_kv_usage",
    "sglang:num_queue_reqs": "inferstream_waiting",
    "sglang:num_running_reqs": "inferstream_running",
    "sglang:token_usage": "inferstream_kv_usage",
    "nv_inference_pending_request_count": "inferstream_waiting",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("load") / "models"
    write_model(folder, "held", "model.Held", CODE, name="held", max_concurrency=4)
    write_model(folder, "other/3", "model.Plain", CODE, name="other", parameters={"version": "3"})
    write_model(folder, "other/2", "model.Plain", CODE, name="other", parameters={"version": "2"})
    aliases = ["vllm", "sglang", "triton"]
    running = Running(two(folder, parallel_workers=2, metric_aliases=aliases))
    yield running
    assert running.stop() == 0, running.text()


def load(client: httpx.Client) -> dict:
    return client.get("/v2/load").json()


def test_load_covers_all_front_ends_and_workers(server: Running) -> None:
    request = {"inputs": []}
    gate = Path(f"{server.log}.open")
    with clients(server) as opened, ThreadPoolExecutor(MANY) as pool:
        before = load(opened[0])
        assert before["waiting"] == before["running"] == before["utilization"] == 0
        assert before["models"].keys() == {"held", "other", "other:2"}
        assert before["models"]["other"]["version"] == "3"
        calls = [pool.submit(client.post, "/v2/models/held/infer", json=request) for client in opened]
        with clients(server) as asking:
            eventually(lambda: load(asking[0])["waiting"] == MANY - 4, 20)
            for client in asking:  # each front end says the same
                # A worker tells its cache a little after its calls.
                eventually(lambda client=client: load(client)["kv_usage"] == 0.5, 20)
                told = load(client)
                held = {"waiting": MANY - 4, "running": 4, "utilization": MANY / 4}
                assert told["models"]["held"] == {**held, "kv_usage": 0.5, "version": None}
                assert {key: told[key] for key in held} == held
            check_metrics(asking[0], waiting=MANY - 4, running=4, utilization=MANY / 4, kv_usage=0.5)
        gate.touch()
        assert {call.result().status_code for call in calls} == {200}
        eventually(lambda: load(opened[0])["utilization"] == 0, 20)


def check_metrics(client: httpx.Client, **expected: float) -> None:
    """The totals, and other servers' names for them, are gauges with one series each, which has no labels."""
    for path in ("/metrics", "/metrics/load"):
        families = {family.name: family for family in text_string_to_metric_families(client.get(path).text)}
        for name, value in expected.items():
            own = f"inferstream_{name}"
            for each in (own, *(alias for alias, meant in ALIASES.items() if meant == own)):
                assert families[each].type == "gauge"
                assert [sample[:3] for sample in families[each].samples] == [(each, {}, value)]
    assert families.keys() == {*ALIASES, *(f"inferstream_{name}" for name in expected)}


def test_metrics_port_reports_load(server: Running) -> None:
    own = f"http://127.0.0.1:{server.metrics_port}"
    assert httpx.get(f"{own}/v2/load").json().keys() == httpx.get(f"{server.url}/v2/load").json().keys()
    assert "vllm:num_requests_waiting 0" in httpx.get(f"{own}/metrics/load").text.splitlines()
