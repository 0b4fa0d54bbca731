"""The objects for KServe fit each other, and the server that they start."""

import os
import re
import subprocess
from importlib.metadata import metadata
from pathlib import Path

import grpc
import httpx
import pytest

from inferstream.protos import dataplane_pb2 as pb
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from inferstream.server.stopping import longest_stop
from tests.serving import SERVER as COMMAND
from tests.serving import eventually, text, write_model

from .manifests import DEPLOY, FOLDERS, FORMATS, RUNTIME, documents, objects, settings_of, variables


def test_kserve_waits_for_a_stop_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert longest_stop(settings_of(RUNTIME, monkeypatch)) < 30  # the default of Kubernetes


def test_the_name_of_an_inference_service_is_that_of_its_model(tmp_path: Path) -> None:
    """KServe puts the name of the InferenceService into the paths of its requests, over REST and gRPC at one port."""
    folder = tmp_path / "models"
    write_model(folder, ".", "faulty_models.Echo", name="another")
    start, target, *flags = RUNTIME["args"]
    assert (start, target) == ("start", "/mnt/models")
    assert flags.pop() == "--http_port=8080"
    given = [flag.replace("{{.Name}}", "iris") for flag in flags]
    environment = {**variables(RUNTIME), "INFERSTREAM_HOST": "127.0.0.1"}
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


def test_a_runtime_of_a_format_differs_by_its_name_and_its_image_alone() -> None:
    assert [each["spec"]["supportedModelFormats"][0]["name"] for each in FORMATS] == [
        "sklearn", "xgboost", "lightgbm", "huggingface", "onnx", "pytorch", "catboost", "mlflow"
    ]  # fmt: skip
    extras = set(metadata("inferstream").get_all("Provides-Extra") or ())
    for document in FORMATS:
        assert document["kind"] == "ClusterServingRuntime"
        spec = document["spec"]
        [format] = spec["supportedModelFormats"]
        [container] = spec["containers"]
        extra = {"pytorch": "torch"}.get(format["name"], format["name"])
        assert extra in extras, "its image has the extra of its name"
        assert document["metadata"]["name"] == f"inferstream-{extra}"
        assert container == {**RUNTIME, "image": f"{RUNTIME['image']}-{extra}"}
        assert not format["autoSelect"], "KServe's own stay the ones that it selects"
        ours = {
            **FOLDERS["spec"],
            "supportedModelFormats": spec["supportedModelFormats"],
            "containers": [container],
        }
        assert spec == ours
    assert FOLDERS["spec"]["annotations"] == {
        "prometheus.kserve.io/port": "8080", "prometheus.kserve.io/path": "/metrics"
    }  # fmt: skip
    assert RUNTIME["ports"] == [{"name": "h2c", "containerPort": 8080, "protocol": "TCP"}]


def test_services_name_runtimes_that_are_here(monkeypatch: pytest.MonkeyPatch) -> None:
    runtimes = {each["metadata"]["name"]: each["spec"] for each in (FOLDERS, *FORMATS)}
    for service in documents(DEPLOY / "kserve" / "inference-service.yaml"):
        predictor = service["spec"]["predictor"]
        runtime = runtimes[predictor["model"]["runtime"]]
        assert predictor["model"]["modelFormat"]["name"] == runtime["supportedModelFormats"][0]["name"]
        assert predictor["model"]["protocolVersion"] in runtime["protocolVersions"]
        settings = settings_of({"env": [*RUNTIME["env"], *predictor["model"].get("env", [])]}, monkeypatch)
        assert longest_stop(settings) < predictor.get("terminationGracePeriodSeconds", 30)


def test_kserve_s_numbers_of_a_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    """KServe's own pods are not ready and serve on for 15 s, and have 60 s in all (kserve/kserve#5496)."""
    [patch] = objects("drain").values()
    pod = patch["spec"]["template"]["spec"]
    settings = settings_of(pod["containers"][0], monkeypatch)
    assert (pod["terminationGracePeriodSeconds"], settings.shutdown_delay) == (60, 15)
    assert longest_stop(settings) < 60 >= settings.shutdown_delay + settings.shutdown_grace + 5
