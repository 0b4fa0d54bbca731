"""The objects of the chart fit each other, and the server that they start: with keys and certificates too."""

import json
import os
import re
import signal
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from inferstream.server.stopping import longest_stop
from inferstream.settings import Settings
from tests.certificates import Authority
from tests.serving import Running, eventually, metric, started_once, text, write_model
from tests.unit.server.test_actions import KEYS, entry

from .blocks import blocks_of
from .chart import (
    NAMESPACE,
    RELEASE,
    Objects,
    needs_helm,
    pod_of,
    render,
    server_of,
    settings_of,
    template_of,
    variables,
)
from .sandbox import ROOT
from .schemas import object_faults

pytestmark = needs_helm

GAUGES = {"inferstream_waiting", "inferstream_running", "inferstream_utilization", "inferstream_kv_usage"}
LOAD = {"waiting", "running", "utilization", "kv_usage", "models"}
"""The totals that scalers and pickers read: gauges without labels, and the fields of `/v2/load`."""

KEY_FILE = json.dumps({"version": 1, "keys": [entry("right", ["metrics"])]})
SECRETS = {("metrics", "key"): KEYS["right"]}
"""The values in Secrets, by name and key."""

SERVICE = f"{RELEASE}.{NAMESPACE}.svc"

with_keys: dict[str, Any] = {"keys": {"content": KEY_FILE}, "metrics": {"key": {"secret": "metrics"}}}
mutual = {"secret": "tls", "clientCertificates": "required"}
SECURITY: dict[str, dict[str, Any]] = {
    "open": {},
    "keys": with_keys,
    "open metrics": {"keys": with_keys["keys"], "metrics": {"open": True}},
    "TLS": {"tls": {"secret": "tls"}},
    "client certificates": {"tls": mutual},
    "keys and client certificates": {**with_keys, "tls": mutual},
    "plain metrics": {"tls": {**mutual, "metrics": False}},
}


class Deployed:
    """A server as the chart starts it, but on loopback, at free ports and with the mounted files in a folder."""

    def __init__(self, root: Path, values: dict[str, Any], **environment: str) -> None:
        self.values = values
        self.objects = render(**values)
        self.container = server_of(self.objects)
        self._authority = Authority(root)
        mounted = {"/etc/inferstream/tls": root / "tls", "/etc/inferstream/keys": root / "keys"}
        self._write_certificate(root / "tls")
        (root / "keys").mkdir()
        if secret := self.objects.get(("Secret", f"{RELEASE}-keys")):
            (root / "keys" / "keys.json").write_text(secret["stringData"]["keys.json"])
        given = variables(self.container)
        for path, folder in mounted.items():
            given = {name: value.replace(path, str(folder)) for name, value in given.items()}
        write_model(root / "models", "echo", "faulty_models.Echo")
        given |= {"INFERSTREAM_HOST": "127.0.0.1", **environment}
        self.running = Running(root / "models", **given)
        self.ports = {"http": self.running.http_port, "metrics": self.running.metrics_port}

    def _write_certificate(self, folder: Path) -> None:
        folder.mkdir()
        files = self._authority.issue("server", hosts=(SERVICE, "127.0.0.1"))
        for name, source in (("tls.crt", "ssl_certfile"), ("tls.key", "ssl_keyfile")):
            (folder / name).write_bytes(Path(files[source]).read_bytes())
        (folder / "ca.crt").write_bytes(self._authority.pem.read_bytes())

    def get(self, scheme: str, port: str, path: str, verified: bool = True, **headers: str) -> httpx.Response:
        """The answer of a port of the container to a client in the cluster, which may verify the certificate."""
        verify: ssl.SSLContext | bool = False
        if verified and scheme == "https":
            verify = ssl.create_default_context(cafile=self._authority.pem)
        url = f"{scheme}://127.0.0.1:{self.ports[port]}{path}"
        named = {"sni_hostname": SERVICE}
        with httpx.Client(verify=verify, timeout=20) as client:
            return client.get(url, headers=headers, extensions=named)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Deployed]]:
    made: dict[str, Deployed] = {}

    def start(kind: str) -> Running:
        made[kind] = Deployed(tmp_path_factory.mktemp("pod"), SECURITY[kind], INFERSTREAM_SHUTDOWN_DELAY="0")
        return made[kind].running

    with started_once(start) as of:

        def deploy(kind: str) -> Deployed:
            of(kind)
            return made[kind]

        yield deploy


@pytest.mark.parametrize("kind", SECURITY)
def test_probes_succeed(deployed: Callable[[str], Deployed], kind: str) -> None:
    """The kubelet has neither a key nor a client certificate, and verifies no certificate."""
    server = deployed(kind)
    probes = {key: value["httpGet"] for key, value in server.container.items() if key.endswith("Probe")}
    assert probes.keys() == {"startupProbe", "readinessProbe", "livenessProbe"}
    for probe in probes.values():
        assert (
            server.get(probe["scheme"].lower(), probe["port"], probe["path"], verified=False).status_code
            == 200
        )


@pytest.mark.parametrize("monitor", ["ServiceMonitor", "PodMonitor"])
@pytest.mark.parametrize("kind", SECURITY)
def test_prometheus_scrapes(deployed: Callable[[str], Deployed], kind: str, monitor: str) -> None:
    server = deployed(kind)
    metrics = {**server.values.get("metrics", {}), "monitor": monitor}
    objects = render(**{**server.values, "metrics": metrics})
    spec = objects[monitor, RELEASE]["spec"]
    [scrape] = spec["endpoints" if monitor == "ServiceMonitor" else "podMetricsEndpoints"]
    headers = {}
    if "authorization" in scrape:
        credentials = scrape["authorization"]["credentials"]
        headers["authorization"] = f"Bearer {SECRETS[credentials['name'], credentials['key']]}"
    answer = server.get(scrape["scheme"], scrape["port"], scrape["path"], **headers)
    assert answer.status_code == 200
    assert "inferstream_" in answer.text
    if scrape["scheme"] == "https":
        assert scrape["tlsConfig"] == {
            "ca": {"secret": {"name": "tls", "key": "ca.crt"}},
            "serverName": SERVICE,
        }
    selected = spec["selector"]["matchLabels"]
    if monitor == "ServiceMonitor":
        found = [
            each
            for (sort, _), each in objects.items()
            if sort == "Service" and has(labels_of(each), selected)
        ]
        assert [each["metadata"]["name"] for each in found] == [RELEASE]
        assert scrape["port"] in {port["name"] for port in found[0]["spec"]["ports"]}
        labels = labels_of(found[0])
    else:
        labels = pod_labels(objects)
        assert has(labels, selected)
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())["groups"][0]["rules"]
    down = next(rule["expr"] for rule in rules if rule["alert"] == "InferstreamDown")
    assert f'job="{labels[spec["jobLabel"]]}"' in down, "the alert's job is that of the monitor"


def labels_of(document: dict[str, Any]) -> dict[str, str]:
    labels: dict[str, str] = document["metadata"]["labels"]
    return labels


def label_name(name: str) -> str:
    """The name that Prometheus gives to a label of Kubernetes."""
    return re.sub(r"[^a-zA-Z0-9]", "_", name)


def pod_labels(objects: Objects) -> dict[str, str]:
    return labels_of(template_of(objects))


def has(labels: dict[str, str], selected: dict[str, str]) -> bool:
    return selected.items() <= labels.items()


@pytest.mark.parametrize("kind", ["open", "open metrics", "TLS"])
def test_annotations_describe_metrics_port(deployed: Callable[[str], Deployed], kind: str) -> None:
    server = deployed(kind)
    metrics = {**server.values.get("metrics", {}), "monitor": "annotations"}
    template = template_of(render(**{**server.values, "metrics": metrics}))
    given = {
        key.removeprefix("prometheus.io/"): value
        for key, value in template["metadata"]["annotations"].items()
    }
    assert given.pop("scrape") == "true"
    [port] = [port for port in server.container["ports"] if str(port["containerPort"]) == given["port"]]
    assert server.get(given["scheme"], port["name"], given["path"]).status_code == 200
    # Prometheus' Helm chart turns the labels of pods into labels of series.
    rules = (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text()
    for name, value in template["metadata"]["labels"].items():
        if name == "app.kubernetes.io/name":
            assert f'up{{{label_name(name)}="{value}"}} == 0' in rules


def test_scrape_configuration_of_page_selects_metrics_port() -> None:
    """Each `keep` rule keeps the pods and one port, and the job has the name that the alert rules expect."""
    [found] = [
        document["scrape_configs"]
        for block in blocks_of(ROOT / "docs" / "kubernetes.md")
        if block.language == "yaml" and "scrape_configs" in (document := yaml.safe_load(block.text))
    ]
    [job] = found
    assert job["job_name"] == "inferstream"
    objects = render()
    known = {f"pod_label_{label_name(name)}": {value} for name, value in pod_labels(objects).items()}
    known["pod_container_port_name"] = {port["name"] for port in server_of(objects)["ports"]}
    added = set()
    for rule in job["relabel_configs"]:
        [source] = rule["source_labels"]
        if rule.get("action") == "keep":
            assert rule["regex"] in known[source.removeprefix("__meta_kubernetes_")]
        else:
            added.add(rule["target_label"])
    assert added == {"namespace", "pod"}, "the autoscalers' queries need them"


@pytest.mark.parametrize("kind", SECURITY)
def test_keda_reads_load(deployed: Callable[[str], Deployed], kind: str) -> None:
    server = deployed(kind)
    objects = render(**server.values, autoscaling={"kind": "keda-load"})
    spec = objects["ScaledObject", RELEASE]["spec"]
    assert ("Deployment", spec["scaleTargetRef"]["name"]) in objects
    [trigger] = spec["triggers"]
    assert (trigger["type"], trigger["metricType"]) == ("metrics-api", "Value")
    given = trigger["metadata"]
    url = httpx.URL(given["url"])
    assert url.host == SERVICE
    [port] = [port for port in objects["Service", RELEASE]["spec"]["ports"] if port["port"] == url.port]
    # KEDA asks each pod at the port of the URL, so that both are one.
    [own] = [each for each in server.container["ports"] if each["name"] == port["targetPort"]]
    assert own["containerPort"] == url.port
    headers = {}
    if reference := trigger.get("authenticationRef"):
        assert given["authMode"] == "bearer"
        [secret] = objects["TriggerAuthentication", reference["name"]]["spec"]["secretTargetRef"]
        assert secret["parameter"] == "token"
        headers["authorization"] = f"Bearer {SECRETS[secret['name'], secret['key']]}"
    answer = server.get(url.scheme, port["targetPort"], url.path, **headers)
    assert answer.status_code == 200, answer.text
    assert isinstance(answer.json()[given["valueLocation"]], float)
    assert answer.json().keys() == LOAD
    assert given.get("aggregateFromKubeServiceEndpoints") == ("true" if url.scheme == "http" else None)


@pytest.mark.parametrize("workload", ["Deployment", "StatefulSet"])
def test_keda_query_adds_up_pods_of_release(workload: str) -> None:
    objects = render(workload=workload, autoscaling={"kind": "keda-prometheus", "min": 3})
    spec = objects["ScaledObject", RELEASE]["spec"]
    assert (spec["scaleTargetRef"]["kind"], spec["minReplicaCount"]) == (workload, 3)
    [trigger] = spec["triggers"]
    [(gauge, matchers)] = re.findall(r"^sum\((\w+)\{(.*)\}\)$", trigger["metadata"]["query"])
    assert gauge in GAUGES
    labels = dict(re.findall(r'(\w+)=~?"([^"]*)"', matchers))
    # Monitors add these two to each series, whatever its job is called.
    assert labels.keys() == {"namespace", "pod"}
    assert labels["namespace"] == NAMESPACE
    own, others = {
        "Deployment": ("models-5d9c7f8b6d-x2x7q", ("models-picker-5d9c7f8b6d-x2x7q", "models-0")),
        "StatefulSet": ("models-0", ("models-b-0", "models-5d9c7f8b6d-x2x7q")),
    }[workload]
    assert re.fullmatch(labels["pod"], own)
    assert not any(re.fullmatch(labels["pod"], other) for other in others)


@pytest.mark.parametrize("kind", ["open", "open metrics"])
def test_picker_reads_gauges(deployed: Callable[[str], Deployed], kind: str) -> None:
    server = deployed(kind)
    objects = render(**server.values, pool={"enabled": True, "picker": {"image": "router:1"}})
    pool = objects["InferencePool", RELEASE]["spec"]
    labels = pod_labels(objects)
    assert has(labels, pool["selector"]["matchLabels"])
    http = next(port for port in server.container["ports"] if port["name"] == "http")
    assert pool["targetPorts"] == [{"number": http["containerPort"]}]
    picker = pool["endpointPickerRef"]
    service = objects["Service", picker["name"]]["spec"]
    assert picker["port"]["number"] == service["ports"][0]["port"]
    deployment = objects["Deployment", picker["name"]]["spec"]
    assert (
        service["selector"]
        == deployment["template"]["metadata"]["labels"]
        == deployment["selector"]["matchLabels"]
    )
    config = yaml.safe_load(objects["ConfigMap", picker["name"]]["data"]["picker.yaml"])
    plugins = {plugin["type"]: plugin.get("parameters") for plugin in config["plugins"]}
    [engine] = plugins["core-metrics-extractor"]["engineConfigs"]
    assert labels["llm-d.ai/engine-type"] == engine.pop("name")
    assert set(engine.values()) <= GAUGES
    source = plugins["metrics-data-source"]
    [port] = [port["name"] for port in server.container["ports"] if port["containerPort"] == source["port"]]
    page = server.get(source["scheme"], port, source["path"])
    assert page.status_code == 200
    assert {line.split()[0] for line in page.text.splitlines() if not line.startswith("#")} == GAUGES
    used = str(config["schedulingProfiles"]) + str(config["dataLayer"]) + str(config["requestHandler"])
    for name in plugins:
        assert name in used, f"{name} is used"


@pytest.mark.parametrize("pooled", [False, True])
def test_route_has_no_limit_for_streams(pooled: bool) -> None:
    pool = {"enabled": pooled, "picker": {"image": "router:1"}}
    objects = render(route={"enabled": True, "gateways": [{"name": "gateway"}]}, pool=pool)
    [rule] = objects["HTTPRoute", RELEASE]["spec"]["rules"]
    assert rule["timeouts"] == {"request": "0s", "backendRequest": "0s"}
    [backend] = rule["backendRefs"]
    assert (backend.get("kind", "Service"), backend["name"]) in objects
    if not pooled:
        assert backend["port"] in {port["port"] for port in objects["Service", RELEASE]["spec"]["ports"]}


def test_ports_match_default_settings() -> None:
    ports = {port["name"]: port["containerPort"] for port in server_of(render())["ports"]}
    assert ports == {
        name: Settings.model_fields[f"{name}_port"].default for name in ("http", "grpc", "metrics")
    }


@pytest.mark.parametrize("kind", SECURITY)
def test_every_variable_is_a_setting(kind: str) -> None:
    settings = {"cache": {"size": "1Gi"}, "settings": {"max_inflight_bytes": 2**31, "parallel_workers": 2}}
    container = server_of(render(**SECURITY[kind], **settings))
    for name in variables(container).keys() - {"HF_HOME"}:
        field = name.removeprefix("INFERSTREAM_").lower()
        assert field in Settings.model_fields, name


def test_settings_reach_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "max_inflight_bytes": 2**31,
        "max_memory": "1.5GB",
        "idle_unload": 900.5,
        "page": False,
        "server_name": 'a "b" c',
        "custom_rest_server_settings": {"backlog": 64},
        "_custom_grpc_server_settings": {"grpc.max_connection_age_ms": 300000},
    }
    values = {"settings": given, "tls": mutual, "resources": {"limits": {"memory": "4Gi"}}}
    settings = settings_of(server_of(render(**values)), monkeypatch)
    assert settings.max_inflight_bytes == 2**31
    assert settings.max_memory == 1_500_000_000
    assert (settings.idle_unload, settings.page, settings.server_name) == (900.5, False, 'a "b" c')
    assert settings.custom_rest_server_settings == {
        "backlog": 64,
        "ssl_certfile": "/etc/inferstream/tls/tls.crt",
        "ssl_keyfile": "/etc/inferstream/tls/tls.key",
        "ssl_ca_certs": "/etc/inferstream/tls/ca.crt",
        "ssl_cert_reqs": ssl.CERT_REQUIRED,
    }
    assert settings.custom_grpc_server_settings is not None
    assert settings.custom_grpc_server_settings["grpc.max_connection_age_ms"] == 300000
    assert settings.custom_metrics_server_settings is not None
    assert "ssl_ca_certs" not in settings.custom_metrics_server_settings


@pytest.mark.parametrize(
    ("values", "delay"),
    [
        ({}, 5),
        ({"pool": {"enabled": True, "picker": {"image": "router:1"}}}, 15),
        ({"shutdown": {"delay": 30}}, 30),
    ],
)
def test_kubernetes_grace_period_covers_shutdown(
    values: dict[str, Any], delay: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = render(**values)
    settings = settings_of(server_of(objects), monkeypatch)
    assert settings.shutdown_delay == delay
    seconds = pod_of(objects)["terminationGracePeriodSeconds"]
    assert seconds >= settings.shutdown_delay + settings.shutdown_grace + 5 > longest_stop(settings)
    # Kubernetes has noticed that the server is not ready before it stops to serve.
    probe = server_of(objects)["readinessProbe"]
    assert settings.shutdown_delay > probe["periodSeconds"] * probe["failureThreshold"]


def test_stopping_server_is_not_ready_but_serves(tmp_path: Path) -> None:
    server = Deployed(tmp_path, {})
    running = server.running
    try:
        running.begin_stop()
        probe = server.container["readinessProbe"]["httpGet"]
        eventually(lambda: server.get("http", probe["port"], probe["path"]).status_code == 503)
        assert running.infer("echo", text()).status_code == 200
    finally:
        assert running.stop(40) == 0, running.text()


def test_selectors_and_references_match_workload() -> None:
    objects = render(autoscaling={"kind": "hpa", "min": 3})
    deployment = objects["Deployment", RELEASE]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    ports = {port["name"] for port in server_of(objects)["ports"]}
    budget, scaler = objects["PodDisruptionBudget", RELEASE], objects["HorizontalPodAutoscaler", RELEASE]
    assert deployment["selector"]["matchLabels"] == budget["spec"]["selector"]["matchLabels"] == labels
    for name in (RELEASE, f"{RELEASE}-grpc"):
        service = objects["Service", name]["spec"]
        assert service["selector"] == labels
        assert {port["targetPort"] for port in service["ports"]} <= ports
    target = scaler["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) in objects
    assert scaler["spec"]["minReplicas"] == 3
    assert "replicas" not in deployment, "an upgrade leaves the number to the autoscaler"


def test_stateful_set_keeps_a_cache_for_each_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = render(workload="StatefulSet", cache={"size": "20Gi"})
    spec = objects["StatefulSet", RELEASE]["spec"]
    assert ("Service", spec["serviceName"]) in objects
    [claim] = spec["volumeClaimTemplates"]
    server = server_of(objects)
    [path] = [
        mount["mountPath"] for mount in server["volumeMounts"] if mount["name"] == claim["metadata"]["name"]
    ]
    settings = settings_of(server, monkeypatch)
    assert Path(path) in Path(settings.sources_dir).parents
    assert Path(path) in Path(variables(server)["HF_HOME"]).parents


def test_autoscaler_metric_exists(deployed: Callable[[str], Deployed]) -> None:
    [each] = render(autoscaling={"kind": "hpa"})["HorizontalPodAutoscaler", RELEASE]["spec"]["metrics"]
    name = each["pods"]["metric"]["name"]
    server = deployed("open")
    server.running.infer("echo", text())
    page = server.get("http", "metrics", "/metrics").text
    assert f"# TYPE {name} gauge" in page
    assert metric(page, name, model="echo") == 0


def test_server_runs_unprivileged_and_writes_only_to_tmp() -> None:
    objects = render()
    server, pod = server_of(objects), pod_of(objects)
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] == 1000
    assert server["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert [mount["mountPath"] for mount in server["volumeMounts"]] == ["/tmp"]
    assert "USER 1000" in (ROOT / "Dockerfile").read_text()


def test_gpus_change_resources_placement_and_rollout() -> None:
    plain, objects = render(), render(gpus=2, resources={"limits": {"memory": "8Gi"}})
    server = server_of(objects)
    assert server["resources"]["limits"] == {"memory": "8Gi", "nvidia.com/gpu": "2"}
    assert pod_of(objects)["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    ]
    rollout = objects["Deployment", RELEASE]["spec"]["strategy"]["rollingUpdate"]
    assert rollout == {"maxSurge": 0, "maxUnavailable": 1}
    # A model that loads for minutes is not ready, and the process is alive from the start.
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert server[name] == server_of(plain)[name]


def test_models_come_from_a_volume() -> None:
    server = server_of(render(models={"persistentVolumeClaim": {"claimName": "models"}}))
    assert server["command"] == ["server", "start", "/mnt/models"]
    assert {"name": "models", "mountPath": "/mnt/models", "readOnly": True} in server["volumeMounts"]
    assert "command" not in server_of(render()), "the image starts its own models"


def test_server_serves_again_after_group_kill(tmp_path: Path) -> None:
    """Kubernetes 1.28 and later with cgroup v2 kill all processes of a container if one exceeds its memory."""
    folder = tmp_path / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    given = variables(server_of(render(settings={"parallel_workers": 2}, shutdown={"delay": 0})))
    (tmp_path / "tmp").mkdir()  # an emptyDir, which the next container of the pod gets as it is
    given |= {"INFERSTREAM_HOST": "127.0.0.1", "TMPDIR": str(tmp_path / "tmp")}
    running = Running(folder, **given)
    assert running.infer("echo", text()).status_code == 200
    processes = [running.process.pid, *running.workers()]
    assert len(processes) >= 3
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)  # so that none acts on the end of another, as under the kernel's kill
    for pid in processes:
        os.kill(pid, signal.SIGKILL)
    assert running.process.wait(20) == -signal.SIGKILL
    with pytest.raises(httpx.TransportError):
        running.infer("echo", text())
    again = Running(folder, **given)
    try:
        assert again.infer("echo", text()).status_code == 200
    finally:
        assert again.stop(40) == 0, again.text()


def test_invalid_field_fails_validation() -> None:
    wrong = json.loads(json.dumps(render(kserve={"enabled": True})["ServingRuntime", "inferstream"]))
    wrong["spec"]["containers"][0] |= {"ports": [{"name": 1}], "portz": []}
    wrong["spec"]["supportedModelFormats"][0]["priority"] = 0
    assert sorted(object_faults(wrong)) == [
        "spec.containers[0].ports[0].containerPort: missing",
        "spec.containers[0].ports[0].name: a int",
        "spec.containers[0].portz: unknown",
        "spec.supportedModelFormats[0].priority: 0 is out of bounds",
    ]
