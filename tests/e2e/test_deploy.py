"""The dashboard, the alert rules and the compose file, against a scrape of a server under load."""

import json
import math
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import grpc
import httpx
import pytest
import yaml
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.frontends import clients
from tests.promql import Scrape
from tests.serving import Running, eventually, fp32, text, write_model
from tests.texts import write_text_models

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "inferstream.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
RULES = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"][0]["rules"]
VARIABLES = {"$__rate_interval": "4s", "$instance": ".*", "$model": ".*"}

QUEUED = """
import asyncio
from inferstream import MLModel
from inferstream.types import InferenceResponse

class Model(MLModel):
    async def predict(self, payload):
        await asyncio.sleep(0.02)
        return InferenceResponse(model_name=self.name, outputs=[])
"""

NVML = """
from types import SimpleNamespace
class NVMLError(Exception): pass
def nvmlInit(): pass
def nvmlDeviceGetCount(): return 1
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetMemoryInfo(handle): return SimpleNamespace(used=50, total=100)
"""
"""Stands in for NVIDIA's library."""


def with_values(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, expression
    return expression


QUERIES = {
    f"{panel['title']} {target['refId']}": with_values(target["expr"])
    for panel in PANELS
    for target in panel["targets"]
}


numbers = count()
"""Requests that the cache does not know."""


def load(running: Running) -> None:
    """One round of everything that has numbers."""
    with clients(running) as opened:
        for at, client in enumerate(opened):
            prompt = {"prompt": f"one two three {at}"}
            for model in ("words", "tokens", "steps"):
                assert client.post(f"/v2/models/{model}/generate_stream", json=prompt).status_code == 200
            batched = fp32([float(next(numbers))])
            assert client.post("/v2/models/batched/infer", json=batched).status_code == 200
            assert client.post("/v2/models/failing/infer", json=text()).status_code == 500
            assert client.post("/v2/models/nobody/infer", json=fp32([1.0])).status_code == 404
    with ThreadPoolExecutor(8) as pool:  # more than two front ends run at once
        statuses = pool.map(lambda _: running.infer("queued", text()).status_code, range(8))
        assert set(statuses) == {200}
    with grpc.insecure_channel(running.grpc) as channel:
        request = ModelInferRequest(model_name="batched")
        request.inputs.add(name="x", datatype="FP32", shape=[1]).contents.fp32_contents.append(1)
        GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=10)
    with connect(f"ws://127.0.0.1:{running.http_port}/v2/models/words/stream") as line:
        line.send(json.dumps(text()))
        line.recv(10)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("dashboard") / "models"
    write_text_models(folder)
    write_model(
        folder, "batched", "faulty_models.Echo", max_batch_size=4, max_batch_time=0.01, cache_enabled=True
    )
    write_model(folder, "failing", "faulty_models.Failing")
    write_model(folder, "queued", "queued.Model", QUEUED, max_concurrency=1)
    settings = {"parallel_workers": 1, "frontends": 2, "cache_enabled": True}
    (folder / "settings.json").write_text(json.dumps(settings))
    library = folder.parent / "library"
    library.mkdir()
    (library / "pynvml.py").write_text(NVML)
    path = f"{library}:{Path(__file__).parents[2]}"
    running = Running(folder, PYTHONPATH=path)
    load(running)
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture(scope="module")
def scrape(loaded: Running) -> Scrape:
    return Scrape(
        httpx.get(f"http://127.0.0.1:{loaded.metrics_port}/metrics").text,
        job="inferstream",
        instance="a",
        app_kubernetes_io_name="inferstream",
    )


@pytest.mark.parametrize("query", QUERIES)
def test_every_dashboard_query_has_series(scrape: Scrape, query: str) -> None:
    assert scrape.complaint(QUERIES[query]) is None


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_alert_uses_existing_series(scrape: Scrape, rule: dict) -> None:
    # Ends that no call had are no series yet.
    expression = re.sub(r'end=~?"[^"]*"', 'end=~".*"', rule["expr"])
    assert scrape.complaint(expression) is None
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"].keys() == {"summary", "description"}
    for label in re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])):
        assert label in rule["expr"] or label in ("instance", "device"), label


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("sum(rate(inferstream_call_total[1m]))", "no series"),
        ('sum(rate(inferstream_calls_total{modell="words"}[1m]))', "no series"),
        ("sum by (modell) (rate(inferstream_calls_total[1m]))", "labels"),
        ("sum(inferstream_calls_total)", "rate"),
        ("histogram_quantile(0.5, sum by (le) (rate(inferstream_call_seconds_sum[1m])))", None),
        ("42", "nothing"),
    ],
)
def test_check_detects_errors(scrape: Scrape, expression: str, reason: str | None) -> None:
    complaint = scrape.complaint(expression)
    assert complaint is None if reason is None else reason in (complaint or "")


def test_dashboard_can_be_provisioned() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    assert {panel["datasource"]["uid"] for panel in PANELS} == {"${datasource}"}
    names = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    assert {"datasource", "instance", "model"} == names
    assert all(panel["title"] and panel["description"] and panel["targets"] for panel in PANELS)
    cells = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        own = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & own, panel["title"]
        cells |= own


def test_compose_file_names_existing_files() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert compose["services"].keys() == {"server", "prometheus", "grafana"}
    volumes = compose["volumes"]
    for service in compose["services"].values():
        assert ("image" in service) != ("build" in service)
        if "build" in service:
            assert (DEPLOY / service["build"] / "Dockerfile").exists()
        for mount in service["volumes"]:
            source = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", mount).split(":")[0]
            assert source in volumes or (DEPLOY / source).exists(), source
        for port in service["ports"]:
            assert port.startswith("127.0.0.1:")
    target = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    (job,) = target["scrape_configs"]
    assert job["job_name"] == "inferstream"
    assert job["static_configs"][0]["targets"] == ["server:8082"]
    provisioning = DEPLOY / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "inferstream.yaml").read_text())["providers"]
    mounted = [mount.split(":")[1] for mount in compose["services"]["grafana"]["volumes"]]
    assert f"{provider['options']['path']}/inferstream.json" in mounted


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "rules", "alerts.yml"),
        ("test", "rules", "alerts_test.yml"),
        ("check", "config", "prometheus.yml"),
    ],
    ids=" ".join,
)
def test_promtool_accepts_rules(arguments: tuple[str, ...]) -> None:
    ran = subprocess.run(
        ["promtool", *arguments], cwd=DEPLOY / "prometheus", capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_each_alert_has_a_test_that_fires_it() -> None:
    tests = yaml.safe_load((DEPLOY / "prometheus" / "alerts_test.yml").read_text())["tests"]
    firing = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case["exp_alerts"]}
    assert firing == {rule["alert"] for rule in RULES}


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")
def test_prometheus_evaluates_every_query_to_numbers(loaded: Running, tmp_path: Path) -> None:
    port = loaded.metrics_port
    config = {
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms"},
        "scrape_configs": [
            {"job_name": "inferstream", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
        ],
    }
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={tmp_path / 'prometheus.yml'}",
                f"--storage.tsdb.path={tmp_path / 'data'}",
                "--web.listen-address=127.0.0.1:0",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        url = f"http://127.0.0.1:{eventually(lambda: _port(process.pid), 20)}"
        _evaluate(url, loaded)
    finally:
        process.terminate()
        process.wait(20)


def _port(pid: int) -> int | None:
    """The port at which a process listens."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(str(descriptor.readlink()))
        except OSError:  # closed meanwhile
            continue
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
            return int(fields[1].rpartition(":")[2], 16)
    return None


def _evaluate(url: str, loaded: Running) -> None:
    """Ask for every query under load, until each has had a number."""
    missing = dict(QUERIES)
    until = time.monotonic() + 60
    while missing and time.monotonic() < until:
        load(loaded)
        for name, query in [*missing.items()]:
            found = httpx.get(f"{url}/api/v1/query", params={"query": query}).json()
            assert found["status"] == "success", (name, found)
            values = [float(each["value"][1]) for each in found["data"]["result"]]
            if any(math.isfinite(value) for value in values):
                del missing[name]
    assert not missing, sorted(missing)
