"""The chart in deploy/helm renders valid objects for each pair of values, and refuses values that cannot work."""

import json
import subprocess
import tomllib
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import combinations
from typing import Any

import pytest
import yaml

from inferstream.settings import Settings

from .chart import CHART, Objects, helm, needs_helm, refusal, render
from .sandbox import ROOT
from .schemas import SCHEMAS, object_faults

pytestmark = needs_helm

VERSIONS = [f"1.{minor}" for minor in range(31, 38)]
DIGEST = "a" * 64
KEYS = json.dumps({"version": 1, "keys": [{"id": "a", "principal": "a", "sha256": DIGEST}]})

VALUES: dict[str, dict[str, dict[str, Any]]] = {
    "workload": {kind: {"workload": kind} for kind in ("Deployment", "StatefulSet")},
    "keys": {"none": {}, "secret": {"keys": {"secret": "own"}}, "content": {"keys": {"content": KEYS}}},
    "tls": {
        "none": {},
        "server": {"tls": {"secret": "tls"}},
        "optional": {"tls": {"secret": "tls", "clientCertificates": "optional"}},
        "required": {"tls": {"secret": "tls", "clientCertificates": "required"}},
        "plain metrics": {"tls": {"secret": "tls", "clientCertificates": "required", "metrics": False}},
    },
    "open metrics": {"no": {}, "yes": {"metrics": {"open": True}}},
    "monitor": {
        kind: {"metrics": {"monitor": kind, "labels": {"release": "prometheus"}}}
        for kind in ("none", "ServiceMonitor", "PodMonitor", "annotations")
    },
    "autoscaling": {
        kind: {"autoscaling": {"kind": kind, "unsafeSsl": True}}
        for kind in ("none", "hpa", "keda-load", "keda-prometheus")
    },
    "disruption": {
        "number": {},
        "percentage": {"disruption": {"maxUnavailable": "25%"}},
        "no": {"disruption": {"enabled": False}},
    },
    "route": {
        "no": {},
        "yes": {
            "route": {"enabled": True, "gateways": [{"name": "gateway"}], "hostnames": ["models.example"]}
        },
    },
    "pool": {"no": {}, "yes": {"pool": {"enabled": True, "picker": {"image": "router:1"}}}},
    "kserve": {
        "no": {},
        **{
            kind: {"kserve": {"enabled": True, "kind": kind}}
            for kind in ("ServingRuntime", "ClusterServingRuntime")
        },
    },
    "gpus": {"none": {}, "two": {"gpus": 2}},
    "cache": {
        "none": {},
        "size": {"cache": {"size": "20Gi"}},
        "class": {"cache": {"size": "20Gi", "storageClass": "fast"}},
    },
    "models": {
        "image": {},
        "claim": {"models": {"persistentVolumeClaim": {"claimName": "models"}}},
        "oci": {"models": {"image": {"reference": "registry.example/models:1"}}},
    },
    "settings": {
        "none": {},
        "memory": {
            "settings": {"max_memory": "6GB", "idle_unload": 900.5},
            "resources": {"limits": {"memory": "8Gi"}},
        },
        "objects": {
            "settings": {
                "parallel_workers": 2,
                "max_inflight_bytes": 2147483648,
                "_custom_grpc_server_settings": {"grpc.max_connection_age_ms": 300000},
                "cors_settings": {"allow_origins": ["https://shop.example"]},
            }
        },
    },
    "shutdown": {"default": {}, "long": {"shutdown": {"delay": 15, "grace": 120}}},
    "service": {"internal": {}, "balancer": {"service": {"type": "LoadBalancer", "annotations": {"a": "b"}}}},
    "pods": {
        "default": {},
        "placed": {
            "podLabels": {"team": "a"},
            "podAnnotations": {"note": "x"},
            "serviceAccountName": "models",
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "spot", "operator": "Exists"}],
            "affinity": {"podAntiAffinity": {}},
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
            ],
            "volumes": [{"name": "shared", "emptyDir": {"medium": "Memory"}}],
            "volumeMounts": [{"name": "shared", "mountPath": "/dev/shm"}],
            "env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}],
            "image": {"repository": "registry.example:5000/models", "tag": "2", "pullSecrets": ["pull"]},
        },
    },
}
"""The choices of each value that the combinations pair with all choices of all others."""

COMMON = {"metrics": {"key": {"secret": "metrics"}}}

Choice = tuple[str, str]
Row = dict[str, str]


def is_refused(row: Row) -> bool:
    """Whether the chart refuses a combination, which may lack values."""
    keys = row.get("keys", "none") != "none" and row.get("open metrics") == "no"
    pooled = row.get("pool") == "yes"
    return (
        (keys and row.get("monitor") == "annotations")
        or (keys and pooled)
        or (pooled and row.get("tls", "none") != "none")
    )


def pairs_of(row: Row) -> set[tuple[Choice, Choice]]:
    return set(combinations(sorted(row.items()), 2))


def all_pairs() -> set[tuple[Choice, Choice]]:
    choices = [[(name, choice) for choice in VALUES[name]] for name in sorted(VALUES)]
    return {(a, b) for one, other in combinations(choices, 2) for a in one for b in other}


@cache
def combine_pairwise() -> list[Row]:
    """Combinations in which every pair of choices occurs: each begins with a missing pair and adds the choices that
    bring the most."""
    missing = {pair for pair in all_pairs() if not is_refused(dict(pair))}
    rows: list[Row] = []
    while missing:
        row = dict(min(missing))
        for name in sorted(VALUES.keys() - row.keys()):
            possible = [choice for choice in VALUES[name] if not is_refused({**row, name: choice})]
            row[name] = max(possible, key=lambda choice: len(pairs_of({**row, name: choice}) & missing))
        missing -= pairs_of(row)
        rows.append(row)
    return rows


def merge(*all_values: dict[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for values in all_values:
        for name, value in values.items():
            known = merged.get(name)
            merged[name] = merge(known, value) if isinstance(known, dict) else value
    return merged


def values_of(row: Row) -> dict[str, Any]:
    return merge(COMMON, *(VALUES[name][choice] for name, choice in row.items()))


@pytest.fixture(scope="module")
def rendered() -> list[Objects]:
    with ThreadPoolExecutor(2) as pool:
        return [*pool.map(lambda row: render(**values_of(row)), combine_pairwise())]


def test_every_pair_of_values_is_rendered(
    rendered: list[Objects], capsys: pytest.CaptureFixture[str]
) -> None:
    found = set().union(*map(pairs_of, combine_pairwise()))
    refused = {pair for pair in all_pairs() if is_refused(dict(pair))}
    assert found == all_pairs() - refused
    assert refused == {(("pool", "yes"), ("tls", tls)) for tls in VALUES["tls"] if tls != "none"}
    with capsys.disabled():
        count = sum(map(len, rendered))
        print(f"\n{len(rendered)} combinations with {len(found)} pairs of values: {count} objects")


def test_refused_pairs_are_refused() -> None:
    for row in (
        {"pool": "yes", "tls": "server"},
        {"keys": "secret", "open metrics": "no", "monitor": "annotations"},
        {"keys": "content", "open metrics": "no", "pool": "yes"},
    ):
        assert is_refused(row)
        assert refusal(**values_of(row))


@pytest.mark.parametrize("version", VERSIONS)
def test_objects_match_api_schema(
    rendered: list[Objects], version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="`make manifests` installs it")
    monkeypatch.setattr(validate.utils, "schema_contents", cache(validate.utils.schema_contents))
    own = {
        json.dumps(each) for objects in rendered for each in objects.values() if each["kind"] not in SCHEMAS
    }
    kinds = set()
    for text in own:
        document = json.loads(text)
        assert validate.validate(document, version, strict=True) == version
        kinds.add(document["kind"])
    assert kinds == {
        "ConfigMap", "Deployment", "HorizontalPodAutoscaler", "PodDisruptionBudget", "Role", "RoleBinding", "Secret",
        "Service", "ServiceAccount", "StatefulSet"
    }  # fmt: skip


def test_objects_match_controller_schemas(rendered: list[Objects]) -> None:
    custom = [each for objects in rendered for each in objects.values() if each["kind"] in SCHEMAS]
    for document in custom:
        assert object_faults(document) == []
    assert {each["kind"] for each in custom} == SCHEMAS.keys() - {"$shared", "InferenceService"}


@pytest.mark.parametrize(("version", "supported"), [("1.30", False), ("1.31", True), ("1.37", True)])
def test_chart_names_its_kubernetes_versions(version: str, supported: bool) -> None:
    ran = helm("template", "models", CHART, "--kube-version", version, values={})
    assert (ran.returncode == 0) == supported, ran.stderr


def test_chart_without_servers_has_only_runtimes() -> None:
    objects = render(workload="None", kserve={"enabled": True})
    assert {kind for kind, _ in objects} == {"ServingRuntime"}
    assert (
        render(workload="None", **values_of({"keys": "content", "pool": "yes", "open metrics": "yes"})) == {}
    )


def test_lint_finds_nothing() -> None:
    for row in combine_pairwise()[:5]:
        ran = helm("lint", "--strict", CHART, values=values_of(row))
        assert ran.returncode == 0, ran.stdout
        assert "[WARNING]" not in ran.stdout


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"replica": 1}, "'replica' not allowed"),
        ({"workload": "DaemonSet"}, "/workload"),
        ({"settings": {"http_port": 80}}, "http_port"),
        ({"shutdown": {"delay": "5s"}}, "/shutdown/delay"),
        ({"autoscaling": {"kind": "keda"}}, "/autoscaling/kind"),
        ({"keys": {"secret": "a", "content": "b"}}, "either keys.secret or keys.content"),
        ({"keys": {"secret": "a"}, "metrics": {"monitor": "PodMonitor"}}, "metrics.key.secret"),
        ({"keys": {"secret": "a"}, "autoscaling": {"kind": "keda-load"}}, "metrics.key.secret"),
        ({"keys": {"secret": "a"}, "metrics": {"monitor": "annotations"}}, "annotations cannot hold"),
        ({"keys": {"secret": "a"}, "pool": {"enabled": True, "picker": {"image": "a"}}}, "sends no API key"),
        ({"tls": {"secret": "a"}, "pool": {"enabled": True, "picker": {"image": "a"}}}, "plain HTTP"),
        ({"pool": {"enabled": True}}, "pool.picker.image"),
        ({"route": {"enabled": True}}, "route.gateways"),
        ({"tls": {"clientCertificates": "required"}}, "needs tls.secret"),
    ],
)
def test_wrong_values_are_refused(values: dict[str, Any], message: str) -> None:
    assert message in refusal(**values)


@pytest.mark.parametrize(
    ("budget", "limit", "fits"),
    [
        ("600MB", "1Gi", True),
        ("6 GB", "6G", False),
        ("6GiB", "6Gi", False),
        ("6gb", "6Gi", True),
        (6_000_000_000, "6Gi", True),
        (7_000_000_000, "6Gi", False),
        ("1.5GB", "1500000000", False),
        ("1TB", None, True),
    ],
)
def test_memory_budget_is_below_container_limit(budget: str | int, limit: str | None, fits: bool) -> None:
    """Above the limit, Kubernetes 1.28 and later with cgroup v2 kill the server with its workers."""
    values = {"settings": {"max_memory": budget}, "resources": {"limits": {"memory": limit}}}
    if fits:
        render(**values)
    else:
        assert "must be below resources.limits.memory" in refusal(**values)


def test_schema_knows_all_values() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def compare(schema: dict[str, Any], values: dict[str, Any], at: str) -> None:
        assert schema["properties"].keys() - {"global"} - values.keys() <= {"claims"}, at
        for name, value in values.items():
            inner = schema["properties"][name]
            if isinstance(value, dict) and "properties" in inner:
                assert inner["additionalProperties"] is False, name
                if name != "resources" and at != "resources":
                    compare(inner, value, name)

    compare(schema, values, "")
    reserved = schema["properties"]["settings"]["propertyNames"]["not"]["enum"]
    assert set(reserved) <= Settings.model_fields.keys()


def test_versions_match_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert (chart["version"], chart["appVersion"]) == (version, version)


def test_package_has_all_files(tmp_path: Any) -> None:
    ran = subprocess.run(
        ["helm", "package", CHART, "-d", tmp_path], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
