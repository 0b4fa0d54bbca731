"""The objects that the chart in deploy/helm renders."""

import json
import shutil
import subprocess
from functools import cache
from typing import Any

import pytest
import yaml

from inferstream.settings import Settings

from .sandbox import ROOT

CHART = ROOT / "deploy" / "helm"
RELEASE, NAMESPACE = "models", "team"

needs_helm = pytest.mark.skipif(shutil.which("helm") is None, reason="`make manifests` installs helm")

Objects = dict[tuple[str, str], dict[str, Any]]
"""Objects by kind and name."""


def helm(*arguments: object, values: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Run a command of helm with values."""
    command = ["helm", *map(str, arguments), "--values", "-"]
    return subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False)


def render(**values: Any) -> Objects:
    """The objects for these values."""
    return _render(json.dumps(values))


@cache
def _render(values: str) -> Objects:
    ran = helm("template", RELEASE, CHART, "--namespace", NAMESPACE, values=json.loads(values))
    assert ran.returncode == 0, ran.stderr
    documents = [each for each in yaml.safe_load_all(ran.stdout) if each is not None]
    objects = {(each["kind"], each["metadata"]["name"]): each for each in documents}
    assert len(objects) == len(documents), "no two objects have one name"
    return objects


def refusal(**values: Any) -> str:
    """The message of helm that refuses these values."""
    ran = helm("template", RELEASE, CHART, values=values)
    assert ran.returncode != 0, "helm has rendered the objects"
    return ran.stderr


def server_of(objects: Objects) -> dict[str, Any]:
    """The container of the server."""
    [server] = pod_of(objects)["containers"]
    return server


def pod_of(objects: Objects) -> dict[str, Any]:
    """The specification of the server's pods."""
    return template_of(objects)["spec"]


def template_of(objects: Objects) -> dict[str, Any]:
    workloads = [each for (kind, name), each in objects.items() if (name, kind) in WORKLOADS]
    [workload] = workloads
    return workload["spec"]["template"]


WORKLOADS = ((RELEASE, "Deployment"), (RELEASE, "StatefulSet"))


def variables(container: dict[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in container["env"]}


def settings_of(container: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name, value in variables(container).items():
        monkeypatch.setenv(name, value)
    return Settings()
