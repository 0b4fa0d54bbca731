"""The manifests of deploy/kubernetes fit each other, the server that they start, and the schema of Kubernetes' API."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from inferstream.server.stopping import longest_stop
from inferstream.settings import Settings
from tests.serving import Running, eventually, metric, text, write_model

from .manifests import (
    DEPLOY,
    DEPLOYMENT,
    FILES,
    FOLDERS,
    OBJECTS,
    POD,
    RUNTIME,
    SERVER,
    documents,
    objects,
    settings_of,
    variables,
)
from .sandbox import ROOT
from .schemas import SCHEMAS, object_faults

GAUGES = {"inferstream_waiting", "inferstream_running", "inferstream_utilization", "inferstream_kv_usage"}
LOAD = {"waiting", "running", "utilization", "kv_usage", "models"}
"""The totals that scalers and pickers read: gauges without labels, and the fields of `/v2/load`."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The server as the Deployment starts it, but on loopback and at free ports."""
    folder = tmp_path_factory.mktemp("pod") / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    running = Running(folder, **{**variables(SERVER), "INFERSTREAM_HOST": "127.0.0.1"})
    yield running
    running.begin_stop()
    assert running.stop(40) == 0, running.text()


@pytest.mark.parametrize("container", [SERVER, RUNTIME], ids=["deployment", "kserve"])
def test_probes_ask_for_paths_that_the_server_has(container: dict[str, Any], served: Running) -> None:
    probes = [value for key, value in container.items() if key.endswith("Probe")]
    assert len(probes) >= 2
    for probe in probes:
        assert container["ports"][0]["containerPort"] == 8080
        assert probe["httpGet"]["port"] in (8080, container["ports"][0].get("name"))
        assert httpx.get(f"{served.url}{probe['httpGet']['path']}").status_code == 200


def test_the_ports_are_the_defaults_of_the_settings() -> None:
    ports = {port["name"]: port["containerPort"] for port in SERVER["ports"]}
    default = Settings.model_fields
    assert ports == {name: default[f"{name}_port"].default for name in ports}
    assert [*ports] == ["http", "grpc", "metrics"]
    annotations = DEPLOYMENT["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(ports["metrics"])
    assert annotations["prometheus.io/path"] == default["metrics_endpoint"].default


@pytest.mark.parametrize("container", [SERVER, RUNTIME], ids=["deployment", "kserve"])
def test_every_variable_is_a_setting(container: dict[str, Any]) -> None:
    for name in variables(container):
        field = name.removeprefix("INFERSTREAM_").lower()
        assert field in Settings.model_fields, name


def test_kubernetes_waits_for_a_stop_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(SERVER, monkeypatch)
    seconds = POD["terminationGracePeriodSeconds"]
    assert seconds >= settings.shutdown_delay + settings.shutdown_grace + 5 > longest_stop(settings)
    # Kubernetes has noticed that the server is not ready before it stops to serve.
    probe = SERVER["readinessProbe"]
    assert settings.shutdown_delay > probe["periodSeconds"] * probe["failureThreshold"]
    assert settings.shutdown_grace == Settings.model_fields["shutdown_grace"].default


def test_a_server_that_stops_is_not_ready_and_serves_on(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    running = Running(folder, **{**variables(SERVER), "INFERSTREAM_HOST": "127.0.0.1"})
    try:
        running.begin_stop()
        path = SERVER["readinessProbe"]["httpGet"]["path"]
        eventually(lambda: httpx.get(f"{running.url}{path}").status_code == 503)
        assert running.infer("echo", text()).status_code == 200
    finally:
        assert running.stop(40) == 0, running.text()


def test_selectors_and_references_lead_to_the_deployment() -> None:
    labels = DEPLOYMENT["template"]["metadata"]["labels"]
    ports = {port["name"] for port in SERVER["ports"]}
    budget, scaler = OBJECTS["PodDisruptionBudget", "models"], OBJECTS["HorizontalPodAutoscaler", "models"]
    assert DEPLOYMENT["selector"]["matchLabels"] == budget["spec"]["selector"]["matchLabels"] == labels
    for name in ("models", "models-grpc"):
        service = OBJECTS["Service", name]["spec"]
        assert service["selector"] == labels
        assert {port["targetPort"] for port in service["ports"]} <= ports
    target = scaler["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) in OBJECTS
    assert scaler["spec"]["minReplicas"] == DEPLOYMENT["replicas"]


def test_the_metric_of_the_autoscaler_is_one_of_the_server(served: Running) -> None:
    [each] = OBJECTS["HorizontalPodAutoscaler", "models"]["spec"]["metrics"]
    name = each["pods"]["metric"]["name"]
    served.infer("echo", text())
    page = httpx.get(f"http://127.0.0.1:{served.metrics_port}/metrics").text
    assert f"# TYPE {name} gauge" in page
    assert metric(page, name, model="echo") == 0


def test_the_server_needs_no_rights_and_writes_to_tmp_alone() -> None:
    assert POD["securityContext"]["runAsNonRoot"]
    assert POD["securityContext"]["runAsUser"] == 1000
    assert SERVER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert [mount["mountPath"] for mount in SERVER["volumeMounts"]] == ["/tmp"]
    assert "USER 1000" in (ROOT / "Dockerfile").read_text()


@pytest.mark.parametrize("file", ["prometheus", "metrics-api"])
def test_keda_scales_the_deployment_by_a_total(file: str) -> None:
    [document] = documents(DEPLOY / "keda" / f"{file}.yaml")
    spec = document["spec"]
    target = spec["scaleTargetRef"]
    assert (target["kind"], target["name"]) in OBJECTS
    assert spec["minReplicaCount"] == DEPLOYMENT["replicas"]
    [trigger] = spec["triggers"]
    given = trigger["metadata"]
    assert trigger["type"] == file
    if file == "prometheus":
        assert set(re.findall(r"inferstream_\w+", given["query"])) <= GAUGES
        assert float(given["threshold"]) < 1
    else:
        assert given["valueLocation"] in LOAD
        url = httpx.URL(given["url"])
        ports = OBJECTS["Service", "models"]["spec"]["ports"]
        assert (url.path, url.host.split(".")[0], ports[0]["port"]) == ("/v2/load", "models", 80)
        assert trigger["metricType"] == "Value", "one server of several is asked"


def test_the_pool_has_the_servers_and_its_picker_reads_their_gauges(served: Running) -> None:
    found = objects("gateway")
    pool = found["InferencePool", "models"]["spec"]
    assert pool["selector"]["matchLabels"] == DEPLOYMENT["template"]["metadata"]["labels"]
    assert pool["targetPorts"] == [{"number": 8080}]
    picker = pool["endpointPickerRef"]
    service = found["Service", picker["name"]]["spec"]
    assert picker["port"]["number"] == service["ports"][0]["port"]
    deployment = found["Deployment", "models-picker"]["spec"]["template"]
    assert service["selector"] == deployment["metadata"]["labels"]
    config = yaml.safe_load(found["ConfigMap", "models-picker"]["data"]["picker.yaml"])
    plugins = {plugin["type"]: plugin.get("parameters") for plugin in config["plugins"]}
    [engine] = plugins["core-metrics-extractor"]["engineConfigs"]
    labels = found["Deployment", "models"]["spec"]["template"]["metadata"]["labels"]
    assert labels == {"llm-d.ai/engine-type": engine.pop("name")}
    assert set(engine.values()) <= GAUGES
    path = plugins["metrics-data-source"]["path"]
    text = httpx.get(f"{served.url}{path}").text
    assert all(f"\n{gauge} " in text for gauge in GAUGES), "the pool's port has the metrics too"
    assert httpx.get(f"{served.url}/v2/load").json().keys() == LOAD
    used = str(config["schedulingProfiles"]) + str(config["dataLayer"]) + str(config["requestHandler"])
    for name in plugins:
        assert name in used, f"{name} is used"


CUSTOM = [
    document
    for file in FILES
    for document in documents(file)
    if document.get("kind") in SCHEMAS and document["kind"] != "Kustomization"
]


@pytest.mark.parametrize("document", CUSTOM, ids=lambda each: f"{each['kind']}-{each['metadata']['name']}")
def test_they_fit_the_schemas_of_their_controllers(document: dict[str, Any]) -> None:
    assert object_faults(document) == []


def test_a_wrong_field_does_not_fit() -> None:
    wrong = json.loads(json.dumps(FOLDERS))
    wrong["spec"]["containers"][0] |= {"ports": [{"name": 1}], "portz": []}
    wrong["spec"]["supportedModelFormats"][0]["priority"] = 0
    assert object_faults(wrong) == [
        "spec.supportedModelFormats[0].priority: 0 is out of bounds",
        "spec.containers[0].ports[0].containerPort: missing",
        "spec.containers[0].ports[0].name: a int",
        "spec.containers[0].portz: unknown",
    ]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is missing")
@pytest.mark.parametrize("folder", ["base", "gpu", "drain", "gateway"])
def test_kubectl_builds_them(folder: str) -> None:
    ran = subprocess.run(
        ["kubectl", "kustomize", DEPLOY / folder], capture_output=True, text=True, check=True
    )
    found = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(ran.stdout)}
    assert found.keys() == OBJECTS.keys() | (objects(folder).keys() if folder == "gateway" else set())
    pod = found["Deployment", "models"]["spec"]["template"]["spec"]
    [server] = pod["containers"]
    assert server["readinessProbe"] == SERVER["readinessProbe"]
    assert ("nvidia.com/gpu" in server["resources"]["limits"]) == (folder == "gpu")
    assert (pod["terminationGracePeriodSeconds"] == 60) == (folder in ("drain", "gateway"))


@pytest.mark.parametrize("version", ["1.29", "1.33", "1.37"])
def test_they_fit_the_schema_of_the_api(version: str) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="`make manifests` installs it")
    others = [each for key, each in objects("gateway").items() if key != ("Deployment", "models")]
    for document in (*OBJECTS.values(), *(each for each in others if each["kind"] not in SCHEMAS)):
        kubernetes_validate.validate(json.loads(json.dumps(document)), version, strict=True)


def test_the_files_are_no_more_than_these() -> None:
    assert {document["kind"] for file in FILES for document in documents(file)} == {
        "ClusterServingRuntime",
        "ConfigMap",
        "Deployment",
        "HTTPRoute",
        "HorizontalPodAutoscaler",
        "InferencePool",
        "InferenceService",
        "PodDisruptionBudget",
        "Role",
        "RoleBinding",
        "ScaledObject",
        "Service",
        "ServiceAccount",
        "ServingRuntime",
    }
