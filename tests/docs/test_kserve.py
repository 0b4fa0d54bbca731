"""The objects for KServe fit each other, and the server that they start."""

import os
import re
import subprocess
from functools import cache
from importlib.metadata import metadata, version
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
import yaml

from inferstream.protos import dataplane_pb2 as pb
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from inferstream.server.stopping import longest_stop
from inferstream.settings import Settings
from tests.serving import SERVER as COMMAND
from tests.serving import Running, eventually, text, write_model

from .blocks import blocks_of
from .chart import needs_helm, render, settings_of, variables
from .sandbox import ROOT
from .schemas import object_faults

pytestmark = needs_helm

FORMATS = ["sklearn", "xgboost", "lightgbm", "huggingface", "onnx", "pytorch", "catboost", "mlflow"]
SERVICES = [
    document
    for block in blocks_of(ROOT / "docs" / "kserve.md")
    if block.language == "yaml"
    for document in yaml.safe_load_all(block.text)
    if isinstance(document, dict) and document.get("kind") == "InferenceService"
]
"""The InferenceServices of the page."""


@cache
def runtimes(kind: str = "ServingRuntime") -> dict[str, dict[str, Any]]:
    """The specifications of the runtimes by name."""
    objects = render(workload="None", kserve={"enabled": True, "kind": kind})
    assert {kind for kind, _ in objects} == {kind}
    return {name: each["spec"] for (_, name), each in objects.items()}


def container(name: str = "inferstream") -> dict[str, Any]:
    """The container of a runtime."""
    [found] = runtimes()[name]["containers"]
    return found


def test_kserve_grace_period_covers_shutdown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert longest_stop(settings_of(container(), monkeypatch)) < 30  # the default of Kubernetes


def test_inference_service_name_is_model_name(tmp_path: Path) -> None:
    """KServe puts the name of the InferenceService into the paths of its requests, over REST and gRPC at one port."""
    folder = tmp_path / "models"
    write_model(folder, ".", "faulty_models.Echo", name="another")
    start, target, *flags = container()["args"]
    assert (start, target) == ("start", "/mnt/models")
    assert flags.pop() == "--http_port=8080"
    given = [flag.replace("{{.Name}}", "iris") for flag in flags]
    environment = {**variables(container()), "INFERSTREAM_HOST": "127.0.0.1"}
    ports = ["--http-port=0", "--metrics_port=0"]
    command = [*COMMAND, "start", str(folder), *given, *ports]
    output = tmp_path / "output"
    with output.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env={**os.environ, **environment})
    try:
        found = eventually(lambda: re.search(r"^gRPC +\S+:(\d+)\n", output.read_text(), re.M), 30)
        port = found[1]
        answer = httpx.post(f"http://127.0.0.1:{port}/v2/models/iris/infer", json=text(), timeout=20)
        assert answer.status_code == 200, answer.text
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            request = pb.ModelReadyRequest(name="iris")
            assert GRPCInferenceServiceStub(channel).ModelReady(request, timeout=20).ready
    finally:
        process.terminate()
        assert process.wait(40) == 0, output.read_text()


@pytest.mark.parametrize("kind", ["ServingRuntime", "ClusterServingRuntime"])
def test_format_runtimes_differ_only_by_name_and_image(kind: str) -> None:
    found = runtimes(kind)
    folders = found["inferstream"]
    [plain] = folders["containers"]
    assert plain["image"] == f"inferstream:{version('inferstream')}"
    assert plain["ports"] == [{"name": "h2c", "containerPort": 8080, "protocol": "TCP"}]
    assert folders["supportedModelFormats"] == [{"name": "inferstream", "version": "1", "autoSelect": True}]
    assert folders["annotations"] == {
        "prometheus.kserve.io/port": "8080",
        "prometheus.kserve.io/path": "/metrics",
    }
    extras = set(metadata("inferstream").get_all("Provides-Extra") or ())
    formats = []
    for name, spec in found.items():
        if name == "inferstream":
            continue
        [format] = spec["supportedModelFormats"]
        extra = {"pytorch": "torch"}.get(format["name"], format["name"])
        assert extra in extras, "its image has the extra of its name"
        assert name == f"inferstream-{extra}"
        assert not format["autoSelect"], "KServe's own stay the ones that it selects"
        container = {**plain, "image": f"{plain['image']}-{extra}"}
        assert spec == {**folders, "supportedModelFormats": [format], "containers": [container]}
        formats.append(format["name"])
    assert formats == FORMATS


def test_probes_use_existing_paths(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    running = Running(folder)
    try:
        probes = [value["httpGet"] for key, value in container().items() if key.endswith("Probe")]
        assert len(probes) == 2
        for probe in probes:
            assert probe["port"] == container()["ports"][0]["containerPort"]
            assert httpx.get(f"{running.url}{probe['path']}").status_code == 200
    finally:
        assert running.stop() == 0, running.text()


def test_every_variable_is_a_setting() -> None:
    for name in variables(container()):
        assert name.removeprefix("INFERSTREAM_").lower() in Settings.model_fields, name


@pytest.mark.parametrize("service", SERVICES, ids=lambda each: each["metadata"]["name"])
def test_services_name_existing_runtimes(service: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert object_faults(service) == []
    predictor = service["spec"]["predictor"]
    runtime = runtimes()[predictor["model"]["runtime"]]
    assert predictor["model"]["modelFormat"]["name"] == runtime["supportedModelFormats"][0]["name"]
    assert predictor["model"]["protocolVersion"] in runtime["protocolVersions"]
    settings = settings_of({"env": [*container()["env"], *predictor["model"].get("env", [])]}, monkeypatch)
    assert longest_stop(settings) < predictor.get("terminationGracePeriodSeconds", 30)


def test_a_service_has_kserve_drain_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """KServe's own pods are not ready and serve on for 15 s, and have 60 s in all (kserve/kserve#5496)."""
    [predictor] = [
        each["spec"]["predictor"]
        for each in SERVICES
        if "terminationGracePeriodSeconds" in each["spec"]["predictor"]
    ]
    settings = settings_of({"env": predictor["model"]["env"]}, monkeypatch)
    assert (predictor["terminationGracePeriodSeconds"], settings.shutdown_delay) == (60, 15)
    assert settings.shutdown_delay + settings.shutdown_grace + 5 <= 60
