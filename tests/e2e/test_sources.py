"""Models that come from elsewhere: S3, a registry of containers, the hub, archives over TLS, each a real server."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
import obstore
import pytest
import xgboost
from obstore.store import S3Store

from tests import stores
from tests.certificates import Authority
from tests.serving import Running, eventually

CODE = """
from inferstream import MLModel
from inferstream.codecs import NumpyCodec
from inferstream.types import InferenceResponse

class Model(MLModel):
    async def predict(self, payload):
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("v", VALUE)])
"""
REQUEST = {"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [1.0]}]}
TAR = "application/vnd.oci.image.layer.v1.tar+gzip"


def code(value: int) -> bytes:
    return f"import numpy as np\nVALUE = np.array([{value}])\n{CODE}".encode()


def settings(**more: object) -> bytes:
    return json.dumps({"implementation": "model.Model", **more}).encode()


def trained(value: float) -> bytes:
    """A regressor of XGBoost that predicts this value, in JSON."""
    model = xgboost.XGBRegressor(n_estimators=1, base_score=value, n_jobs=1)
    model.fit(np.zeros((4, 1)), np.full(4, value))
    return bytes(model.get_booster().save_raw("json"))


def value_of(running: Running, model: str) -> float:
    response = running.infer(model, REQUEST)
    assert response.status_code == 200, response.text
    return response.json()["outputs"][0]["data"][0]


Start = Callable[..., Running]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a server of a URI, or of the folder `local`, with a cache of this test."""
    servers: list[Running] = []

    def started(target: str | None, *flags: str, **environment: str) -> Running:
        (tmp_path / "local").mkdir(exist_ok=True)
        cache = str(tmp_path / "cache")
        running = Running(
            tmp_path / "local",
            *flags,
            within=120,  # imports of frameworks
            target=target,
            INFERSTREAM_SOURCES_DIR=cache,
            **{"HF_HUB_DISABLE_TELEMETRY": "1", **environment},
        )
        servers.append(running)
        return running

    yield started
    for running in servers:
        assert running.stop() == 0, running.text()


@pytest.fixture(scope="module")
def s3() -> Iterator[tuple[S3Store, dict[str, str]]]:
    with stores.moto() as url:
        store = S3Store(
            "bucket",
            endpoint=url,
            access_key_id="id",
            secret_access_key="s3cr3t",
            region="us-east-1",
            client_options={"allow_http": True},
        )
        yield store, {**stores.CREDENTIALS, "AWS_ENDPOINT_URL": url, "AWS_ALLOW_HTTP": "true"}


@pytest.fixture
def hub() -> Iterator[stores.Web]:
    web = stores.Web()
    yield web
    web.stop()


def test_s3_repository_switches_version_without_lost_call(
    s3: tuple[S3Store, dict[str, str]], start: Start
) -> None:
    store, environment = s3
    for model in ("one", "other"):
        obstore.put(store, f"models/{model}/model-settings.json", settings())
        obstore.put(store, f"models/{model}/model.py", code(1))
    obstore.put(
        store,
        "models/tree/model-settings.json",
        settings(implementation="inferstream.plugins.frameworks.xgboost.XGBoostModel"),
    )
    obstore.put(store, "models/tree/model.json", trained(3.0))
    flags = ("--trust-remote-code",)
    running = start("s3://bucket/models", *flags, INFERSTREAM_REPOSITORY_POLL="0.2", **environment)
    assert (value_of(running, "one"), value_of(running, "other")) == (1, 1)
    assert value_of(running, "tree") == pytest.approx(3.0)
    failed: list[int] = []
    over = threading.Event()

    def call() -> None:
        while not over.is_set():
            if (status := running.infer("one", REQUEST).status_code) != 200:
                failed.append(status)

    caller = threading.Thread(target=call)
    caller.start()
    try:
        obstore.put(store, "models/one/model.py", code(2))
        eventually(lambda: value_of(running, "one") == 2, 30)
    finally:
        over.set()
        caller.join()
    assert failed == []
    eventually(lambda: "reloaded model one" in running.text(), 30)
    assert "reloaded model other" not in running.text()


def test_s3_artefact_is_fetched_again_on_load(
    s3: tuple[S3Store, dict[str, str]], start: Start, tmp_path: Path
) -> None:
    store, environment = s3
    obstore.put(store, "artefacts/model.json", trained(5.0))
    folder = tmp_path / "local" / "tree"
    folder.mkdir(parents=True)
    uri = {"uri": "s3://bucket/artefacts/model.json"}
    described = settings(implementation="inferstream.plugins.frameworks.xgboost.XGBoostModel", parameters=uri)
    (folder / "model-settings.json").write_bytes(described)
    running = start(None, "--frontends", "2", **environment)
    assert value_of(running, "tree") == pytest.approx(5.0)
    obstore.put(store, "artefacts/model.json", trained(6.0))
    assert httpx.post(f"{running.url}/v2/repository/models/tree/load", timeout=30).status_code == 200
    assert value_of(running, "tree") == pytest.approx(6.0)


def test_code_and_pickles_need_trust(
    s3: tuple[S3Store, dict[str, str]], start: Start, tmp_path: Path
) -> None:
    store, environment = s3
    obstore.put(store, "code/mine/model-settings.json", settings())
    obstore.put(store, "code/mine/model.py", code(1))
    obstore.put(store, "pickles/odd.name", b"\x80\x04N.")
    for name, uri in (("code", "s3://bucket/code/mine"), ("odd", "s3://bucket/pickles/odd.name")):
        folder = tmp_path / "local" / name
        folder.mkdir(parents=True)
        implementation = "inferstream.plugins.frameworks.sklearn.SKLearnModel"
        (folder / "model-settings.json").write_bytes(
            settings(implementation=implementation, parameters={"uri": uri})
        )
    running = start(None, **environment)
    index = {
        each["name"]: each["reason"]
        for each in httpx.post(f"{running.url}/v2/repository/index", json={}).json()
    }
    assert "left out of s3://bucket/code/mine" in index["code"]
    assert "trust_remote_code" in index["code"]
    assert "odd.name" in index["odd"]
    assert "trust_remote_code" in index["odd"]
    other = start("s3://bucket/code", **environment)
    assert other.infer("mine", REQUEST).status_code == 503
    assert "model.py" in other.text()


def test_wrong_key_is_in_no_message(s3: tuple[S3Store, dict[str, str]], start: Start, tmp_path: Path) -> None:
    _, environment = s3
    folder = tmp_path / "local" / "gone"
    folder.mkdir(parents=True)
    uri = {"uri": "s3://bucket/missing/model.json"}
    (folder / "model-settings.json").write_bytes(settings(parameters=uri))
    running = start(None, **environment)
    [model] = httpx.post(f"{running.url}/v2/repository/index", json={}).json()
    assert model["reason"] == "s3://bucket/missing/model.json cannot be fetched: FileNotFoundError"
    assert "s3cr3t" not in running.text()


def test_hub_revision_is_verified_and_served_offline(hub: stores.Web, start: Start) -> None:
    weights = trained(7.0)
    hub.publish("org/tree", "v1", {"model.json": weights, "README.md": b"Trees."})
    hub.cut = len(weights) // 2  # the description is shorter
    environment = {"HF_ENDPOINT": hub.url, "HF_TOKEN": "hf_s3cr3t"}
    running = start("hf://org/tree@v1", **environment)
    assert value_of(running, "tree") == pytest.approx(7.0)
    ranges = [asked for path, asked, _ in hub.asked if path.endswith("model.json")]
    assert ranges == [None, f"bytes={len(weights) // 2}-"]
    assert [login for path, _, login in hub.asked if path.startswith("/api/models/")] == ["Bearer hf_s3cr3t"]
    running.stop()
    hub.files.clear()
    again = start("hf://org/tree@v1", "--offline", **environment)
    assert value_of(again, "tree") == pytest.approx(7.0)
    again.stop()
    unreachable = start("hf://org/tree@v1", **environment)
    assert value_of(unreachable, "tree") == pytest.approx(7.0)
    assert "using the last version in the cache" in unreachable.text()
    assert "s3cr3t" not in running.text() + unreachable.text()


def test_wrong_digest_is_refused(hub: stores.Web, start: Start, tmp_path: Path) -> None:
    hub.publish("org/tree", "main", {"model.json": trained(7.0)})
    path = next(path for path in hub.files if path.endswith("model.json"))
    hub.files[path] = hub.files[path][:-1] + b" "
    (tmp_path / "local").mkdir()
    refused = Running(
        tmp_path / "local",
        target="hf://org/tree@main",
        wait=False,
        HF_ENDPOINT=hub.url,
        INFERSTREAM_SOURCES_DIR=str(tmp_path / "cache"),
    )
    assert refused.process.wait(60) == 1
    assert "model.json of hf://org/tree@main has the digest" in refused.text()


def test_image_layers_and_artefact_files(start: Start, tmp_path: Path) -> None:
    with stores.registry(tmp_path / "registry") as host:
        title = {"org.opencontainers.image.title": "model.json"}
        stores.push(host, "team/tree", "1", [(trained(8.0), title, "application/octet-stream")])
        running = start(f"oci://{host}/team/tree:1")
        assert value_of(running, "tree") == pytest.approx(8.0)
        layer = stores.packed({"models/one/model-settings.json": settings(), "models/one/model.py": code(9)})
        stores.push(host, "team/image", "latest", [(layer, {}, TAR)])
        image = start(f"oci://{host}/team/image", "--trust-remote-code")
        assert value_of(image, "one") == 9


def test_archive_over_tls(start: Start, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    web = stores.Web(authority.issue("archives"))
    try:
        web.files["/tree.tar.gz"] = stores.packed({"model.json": trained(4.0)})
        web.files["/evil.tar.gz"] = stores.packed({"../../../evil": b"x"})
        place = f"https://user:s3cr3t@127.0.0.1:{web.port}"
        evil = tmp_path / "local" / "evil"
        evil.mkdir(parents=True)
        (evil / "model-settings.json").write_bytes(
            settings(parameters={"uri": f"{place}/evil.tar.gz?sig=s3cr3t"})
        )
        running = start(f"{place}/tree.tar.gz?sig=s3cr3t", SSL_CERT_FILE=str(authority.pem))
        assert value_of(running, "tree") == pytest.approx(4.0)
        other = start(None, SSL_CERT_FILE=str(authority.pem))
        [model] = httpx.post(f"{other.url}/v2/repository/index", json={}).json()
        assert "cannot be unpacked" in model["reason"]
        assert not (tmp_path / "cache" / "evil").exists()
        assert "s3cr3t" not in running.text() + other.text()
    finally:
        web.stop()
