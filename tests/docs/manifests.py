"""The manifests of deploy/kubernetes, as objects."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from inferstream.settings import Settings

from .sandbox import ROOT

DEPLOY = ROOT / "deploy" / "kubernetes"
FILES = [file for file in sorted(DEPLOY.rglob("*.yaml")) if file.name != "kustomization.yaml"]


def documents(file: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(file.read_text()))


OBJECTS = {
    (document["kind"], document["metadata"]["name"]): document
    for file in sorted((DEPLOY / "base").glob("*.yaml"))
    for document in documents(file)
    if document["kind"] != "Kustomization"
}
DEPLOYMENT = OBJECTS["Deployment", "models"]["spec"]
POD = DEPLOYMENT["template"]["spec"]
[SERVER] = POD["containers"]
[FOLDERS] = documents(DEPLOY / "kserve" / "serving-runtime.yaml")
FORMATS = documents(DEPLOY / "kserve" / "formats.yaml")
[RUNTIME] = FOLDERS["spec"]["containers"]


def objects(folder: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The objects in a folder, without patches and what kustomize reads."""
    found = [each for file in sorted((DEPLOY / folder).glob("*.yaml")) for each in documents(file)]
    return {
        (each["kind"], each["metadata"]["name"]): each
        for each in found
        if "kind" in each and "metadata" in each
    }


def variables(container: dict[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in container["env"]}


def settings_of(container: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name, value in variables(container).items():
        monkeypatch.setenv(name, value)
    return Settings()
