"""The package of the tutorial on plug-ins, installed beside the server and used over both transports."""

import json
import os
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import pytest

from inferstream.protos import dataplane_pb2 as pb
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.e2e.test_plugins import install, run
from tests.serving import Running

PACKAGE = Path(__file__).parents[1] / "packages" / "tenants"

MORE = """
from collections.abc import AsyncIterator
from inferstream import App

app = App()

@app.model
def count(text: bytes) -> int:
    return len(text)

@app.model
async def echo(text: AsyncIterator[str]) -> AsyncIterator[str]:
    async for each in text:
        yield each
"""
"""Models of bytes, and of a stream of texts."""

SEARCH = {"x-tenant": "search"}
ADS = {"x-tenant": "ads"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the package `tenants` is installed."""
    site = tmp_path_factory.mktemp("site")
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    install(site, project["name"], project["entry-points"])
    shutil.copytree(PACKAGE / "tenants", site / "tenants")
    return site


def start(site: Path, folder: Path, *flags: str, **environment: str) -> Running:
    """A server of the models of the tutorial, with the settings in `folder`."""
    folder.mkdir(exist_ok=True)
    shutil.copy(PACKAGE / "words.py", folder)
    target = str(folder / "words.py")
    return Running(folder, "--strict", *flags, target=target, PYTHONPATH=str(site), **environment)


@pytest.fixture
def server(site: Path, tmp_path: Path) -> Iterator[Running]:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "settings.json").write_text('{"tenants": {"search": 2, "ads": 60}}')
    running = start(site, folder)
    yield running
    running.stop()


def shout(server: Running, text: str = "hello", **headers: str) -> httpx.Response:
    return httpx.post(f"{server.url}/v2/models/shout/generate", json={"text": text}, headers=headers)


def usage(server: Running, **headers: str) -> httpx.Response:
    return httpx.get(f"{server.url}/tenants/usage", headers=headers)


def ask(model: str, text: bytes = b"hello") -> pb.ModelInferRequest:
    request = pb.ModelInferRequest(model_name=model)
    tensor = request.inputs.add(name="text", datatype="BYTES", shape=[1])
    tensor.contents.bytes_contents.append(text)
    return request


def infer(stub: GRPCInferenceServiceStub, *metadata: tuple[str, str]) -> bytes | grpc.StatusCode:
    """The output of one call of `shout`, or the status of its failure."""
    try:
        response = stub.ModelInfer(ask("shout"), metadata=metadata)
    except grpc.RpcError as error:
        return error.code()
    assert response.raw_output_contents == []
    return response.outputs[0].contents.bytes_contents[0]


def test_only_listed_tenants_are_allowed(server: Running) -> None:
    missing = shout(server)
    assert (missing.status_code, missing.json()["error"]) == (
        401,
        "The header x-tenant is missing. It names your tenant.",
    )
    unknown = shout(server, **{"x-tenant": "sales"})
    assert (unknown.status_code, unknown.json()["error"]) == (403, 'The tenant "sales" is unknown.')
    assert shout(server, **ADS).json()["output"] == "HELLO"
    assert usage(server).status_code == 401
    assert httpx.get(f"{server.url}/v2/models/shout").status_code == 401
    assert httpx.get(f"{server.url}/v2/health/ready").status_code == 200
    assert httpx.get(f"{server.url}/metrics").status_code == 200


def test_tenant_limit_affects_no_other_tenant(server: Running) -> None:
    assert [shout(server, **SEARCH).status_code for _ in range(2)] == [200, 200]
    refused = shout(server, **SEARCH)
    assert (refused.status_code, refused.json()["error"]) == (
        429,
        "The limit of 2 calls per minute is reached.",
    )
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert shout(server, **ADS).status_code == 200


def test_transports_share_one_limit(server: Running) -> None:
    with grpc.insecure_channel(server.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        assert infer(stub) is grpc.StatusCode.UNAUTHENTICATED
        assert infer(stub, ("x-tenant", "sales")) is grpc.StatusCode.PERMISSION_DENIED
        assert infer(stub, *SEARCH.items()) == b"HELLO"
        assert shout(server, "good bye", **SEARCH).status_code == 200
        assert infer(stub, *SEARCH.items()) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert usage(server, **SEARCH).json() == {
        "tenant": "search",
        "calls": 2,
        "characters": len("hello") + len("good bye"),
        "calls_per_minute": 2,
    }


def test_model_without_text_uses_no_characters(server: Running) -> None:
    body = {"a": 1, "b": 2}
    response = httpx.post(f"{server.url}/v2/models/add/generate", json=body, headers=ADS)
    assert response.json()["output"] == 3
    assert usage(server, **ADS).json() == {
        "tenant": "ads",
        "calls": 1,
        "characters": 0,
        "calls_per_minute": 60,
    }


def test_non_text_request_gets_error_of_model(server: Running) -> None:
    for datatype, data in (("BYTES", None), ("INT64", 1)):
        body = {"inputs": [{"name": "text", "datatype": datatype, "shape": [1], "data": [data]}]}
        response = httpx.post(f"{server.url}/v2/models/shout/infer", json=body, headers=ADS)
        assert response.status_code == 400
        assert 'argument "text"' in response.json()["error"]
    assert usage(server, **ADS).json()["characters"] == 0


def test_bytes_are_not_text_and_later_requests_count(site: Path, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"tenants": {"ads": 60}}')
    (tmp_path / "more.py").write_text(MORE)
    running = Running(
        tmp_path, "--strict", target=str(tmp_path / "more.py"), PYTHONPATH=f"{site}{os.pathsep}{tmp_path}"
    )
    try:
        with grpc.insecure_channel(running.grpc) as channel:
            stub = GRPCInferenceServiceStub(channel)
            counted = stub.ModelInfer(ask("count", b"\xff\xfe"), metadata=[*ADS.items()])
            assert counted.outputs[0].contents.int64_contents[:] == [2]
            words = [ask("echo", word) for word in (b"one", b"three")]
            assert len([*stub.ModelStreamInfer(iter(words), metadata=[*ADS.items()])]) == 2
        assert usage(running, **ADS).json()["calls"] == 2
        assert usage(running, **ADS).json()["characters"] == len("one" + "three")
    finally:
        running.stop()


def test_path_is_documented(server: Running) -> None:
    document = httpx.get(f"{server.url}/v2/docs/dataplane.json", headers=ADS).json()
    assert document["paths"]["/tenants/usage"]["get"]["summary"] == "The usage of your tenant"


@pytest.mark.parametrize("source", ["flag", "file", "environment"])
def test_header_is_read_from_each_settings_source(site: Path, tmp_path: Path, source: str) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    settings: dict[str, object] = {"tenants": {"ads": 1}}
    flags, environment = [], {}
    if source == "flag":  # wins over the others
        flags = ["--tenants-header", "x-team"]
        settings["tenants_header"] = "x-other"
    elif source == "file":
        settings["tenants_header"] = "x-team"
        environment = {"INFERSTREAM_TENANTS_HEADER": "x-other"}
    else:
        environment = {"INFERSTREAM_TENANTS_HEADER": "X-Team"}
    (folder / "settings.json").write_text(json.dumps(settings))
    running = start(site, folder, *flags, **environment)
    try:
        assert usage(running, **{"x-team": "ads"}).json()["tenant"] == "ads"
        assert "x-team" in usage(running, **ADS).json()["error"]
    finally:
        running.stop()


def test_tenants_can_come_from_variable_and_none_disables_plugin(site: Path, tmp_path: Path) -> None:
    running = start(site, tmp_path / "one", INFERSTREAM_TENANTS='{"ops": 1}')
    try:
        assert shout(running, **{"x-tenant": "ops"}).status_code == 200
        assert shout(running).status_code == 401
    finally:
        running.stop()
    running = start(site, tmp_path / "none")
    try:
        assert [shout(running).status_code for _ in range(3)] == [200] * 3
        off = usage(running)
        assert (off.status_code, off.json()["error"]) == (
            404,
            "This server has no tenants. The setting tenants names them.",
        )
    finally:
        running.stop()


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"tenants": {"ads": 0}}, 'field "tenants.ads": must be at least 1, got 0'),
        ({"tenants": ["ads"]}, "field \"tenants\": must be a JSON object, got ['ads']"),
        ({"tenant": {"ads": 1}}, 'field "tenant" is unknown; did you mean "tenants"?'),
    ],
)
def test_invalid_setting_is_one_line(
    site: Path, tmp_path: Path, settings: dict[str, object], line: str
) -> None:
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    shutil.copy(PACKAGE / "words.py", tmp_path)
    ran = run(site, "start", str(tmp_path / "words.py"), "--strict")
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr
    last = ran.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert line in last


def test_missing_dependency_aborts_startup_with_one_line(site: Path, tmp_path: Path) -> None:
    broken = tmp_path / "site"
    shutil.copytree(site, broken)
    module = broken / "tenants" / "__init__.py"
    module.write_text(module.read_text().replace("tenants.stage:limit_calls", "tenants.stage:limit"))
    shutil.copy(PACKAGE / "words.py", tmp_path)
    ran = run(broken, "start", str(tmp_path / "words.py"), "--strict")
    assert ran.returncode == 1
    assert ran.stderr.strip().splitlines()[-1] == (
        'error: package tenants: extension "tenants", stages "tenants" (tenants.stage:limit): '
        "AttributeError: module 'tenants.stage' has no attribute 'limit'"
    )
