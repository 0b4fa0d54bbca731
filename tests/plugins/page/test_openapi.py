"""OpenAPI documents are whole: every reference leads somewhere, and every path is where clients look for it."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from inferstream import ModelSettings, Settings
from inferstream.ext.calls import Described
from inferstream.ext.runtimes import Signature
from inferstream.plugins.page.openapi import describe
from inferstream.types import MetadataModelResponse, MetadataTensor

INPUTS = [MetadataTensor(name="x", datatype="FP32", shape=[-1, 2])]
MODEL = MetadataModelResponse(name="a/b", platform="", inputs=INPUTS, outputs=[])


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for each in node.values():
            yield from references(each)
    elif isinstance(node, list):
        for each in node:
            yield from references(each)


@pytest.mark.parametrize("model", [None, MODEL])
def test_every_reference_resolves(model: MetadataModelResponse | None) -> None:
    document = describe(Settings(), "", model)
    found = set(references(document))
    assert found
    assert {ref.rpartition("/")[2] for ref in found} <= document["components"]["schemas"].keys()
    assert all(ref.startswith("#/components/schemas/") for ref in found)


def test_server_document_has_each_model_path_twice() -> None:
    paths = describe(Settings(), "")["paths"]
    versioned = {path for path in paths if "/versions/{model_version}" in path}
    assert {path.replace("/versions/{model_version}", "") for path in versioned} < paths.keys()
    for path in paths:
        for operation in paths[path].values():
            named = {each["name"] for each in operation.get("parameters", ()) if each["in"] == "path"}
            assert named == {part[1:-1] for part in path.split("/") if part.startswith("{")}


@pytest.mark.parametrize(
    ("version", "base", "title"),
    [
        (None, "/v2/models/a/b", "Data Plane for Model a/b"),
        ("2", "/v2/models/a/b/versions/2", "Data Plane for Model a/b (2)"),
    ],
)
def test_model_document_has_only_its_paths_and_an_example(version: str | None, base: str, title: str) -> None:
    document = describe(Settings(), "/prefix", MODEL, version)
    assert all(path.startswith(base) for path in document["paths"])
    assert (document["info"]["title"], document["servers"]) == (title, [{"url": "/prefix"}])
    sent = document["paths"][f"{base}/infer"]["post"]["requestBody"]["content"]["application/json"]
    assert sent["example"]["inputs"][0]["shape"] == [1, 2]
    assert document["paths"][f"{base}/stream"]["get"]["x-websocket"] == sent["example"]


@pytest.mark.parametrize(
    ("ports", "shown"),
    [({"grpc_port": 5}, 5), ({"http_port": 7, "grpc_port": None}, 7), ({"grpc_port": 0}, None)],
)
def test_document_contains_grpc_port(ports: dict[str, Any], shown: int | None) -> None:
    info = describe(Settings(**ports), "")["info"]
    assert info.get("x-server") == (None if shown is None else {"grpc_port": shown})


def test_document_describes_model_capabilities() -> None:
    signature = Signature(inputs=tuple(INPUTS), outputs=(), streams=True, doc="Doubles.", function=True)
    capabilities: Any = SimpleNamespace(predict=False, streams=True, steps=False, gathers=True)
    described = Described(signature, capabilities, ModelSettings(implementation="m.M"))
    info = describe(Settings(), "", MODEL, described=described)["info"]
    assert info["description"] == "Doubles."
    assert info["x-model"] == {
        "predict": True,  # its responses are gathered
        "streams": False,
        "steps": False,
        "function": True,
        "text": False,
        "embeddings": False,
    }
