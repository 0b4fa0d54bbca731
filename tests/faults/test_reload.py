"""What a reload says, in the log and in the index, of settings and code that are wrong, gone, and right again."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import grpc
import httpx
import pytest

from inferstream.protos.dataplane_pb2 import RepositoryModelLoadRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, eventually, text, write_model

KEPT = "the old version goes on serving"

SAYING = """
from inferstream import MLModel
class Model(MLModel):
    async def predict(self, payload):
        return self.encode_response(["{word}"])
"""
FAILING = SAYING + "    def load(self): raise RuntimeError('no weights')\n"


def put(file: Path, content: str) -> None:
    """Rename into place: a reload between truncating and writing would find half of it."""
    new = file.with_suffix(".new")
    new.write_text(content)
    new.replace(file)


def settings(**changes: object) -> str:
    return json.dumps({"implementation": "model.Model", "name": "one", **changes})


def index(server: Running) -> dict[tuple[str, str], tuple[str, str]]:
    items = httpx.post(f"{server.url}/v2/repository/index", timeout=10).json()
    return {(item["name"], item["version"]): (item["state"], item["reason"]) for item in items}


def said(server: Running) -> str:
    word: str = server.infer("one", text()).json()["outputs"][0]["data"][0]
    return word


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "invalid JSON": (lambda at: put(at / "model-settings.json", "{"), "line 1 column 2"),
    "a wrong field": (lambda at: put(at / "model-settings.json", settings(max_queue="many")), "max_queue"),
    "no such module": (
        lambda at: put(at / "model-settings.json", settings(implementation="nothing_here.Model")),
        "nothing_here",
    ),
    "no such class": (
        lambda at: put(at / "model-settings.json", settings(implementation="model.Nobody")),
        "Nobody",
    ),
    "a load that fails": (
        lambda at: put(at / "model.py", FAILING.replace("{word}", "worse")),
        "RuntimeError: no weights",
    ),
    "no settings file": (lambda at: (at / "model-settings.json").unlink(), "no longer in the repository"),
    "no folder": (shutil.rmtree, "no longer in the repository"),
    "another version that fails": (
        lambda at: put(
            at / "model-settings.json", settings(parameters={"version": "2"}, implementation="model.Nobody")
        ),
        "Nobody",
    ),
}


@pytest.fixture
def one(tmp_path: Path) -> Path:
    """A model of another name than its folder's, which only its settings know, beside one that stays as it is."""
    root = tmp_path / "models"
    write_model(root, "echo", "faulty_models.Echo")
    return write_model(root, "folder", "model.Model", SAYING.replace("{word}", "old"), name="one")


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_cannot_be_served_is_in_log_and_index_until_it_is_repaired(
    serve, one: Path, change: str
) -> None:
    make, reason = CHANGES[change]
    server = serve(one.parent, "--reload")
    assert index(server)["one", ""] == ("READY", "")

    make(one)

    eventually(lambda: KEPT in server.text(), 20)
    [line] = [line for line in server.text().splitlines() if KEPT in line][:1]
    assert "ERROR" in line
    assert "one" in line
    assert reason in line
    state, why = index(server)["one", ""]
    assert state == "READY"
    assert reason in why
    assert KEPT in why
    assert str(one.parent) not in why
    assert said(server) == "old"
    assert httpx.get(f"{server.url}/v2/health/ready").status_code == 200

    one.mkdir(exist_ok=True)
    put(one / "model.py", SAYING.replace("{word}", "new"))
    put(one / "model-settings.json", settings())

    eventually(lambda: said(server) == "new" and index(server)["one", ""] == ("READY", ""), 20)
    assert [name for name, _ in index(server)] == ["echo", "one"]
    eventually(lambda: "reloaded model one" in server.text())
    server.probe()


@pytest.mark.parametrize("change", CHANGES)
def test_a_load_that_is_asked_for_says_the_same(serve, one: Path, change: str) -> None:
    make, reason = CHANGES[change]
    server = serve(one.parent)
    make(one)

    refused = httpx.post(f"{server.url}/v2/repository/models/one/load", timeout=20)

    assert refused.status_code >= 400
    assert reason in refused.json()["error"]
    assert KEPT in refused.json()["error"]
    with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError) as failure:
        GRPCInferenceServiceStub(channel).RepositoryModelLoad(RepositoryModelLoadRequest(model_name="one"))
    assert KEPT in failure.value.details()
    assert server.text().count(KEPT) == 2
    state, why = index(server)["one", ""]
    assert (state, KEPT in why) == ("READY", True)
    assert said(server) == "old"

    assert httpx.post(f"{server.url}/v2/repository/models/one/unload", timeout=20).status_code == 200
    assert KEPT not in str(index(server))


def test_a_version_that_is_broken_serves_on_beside_one_that_changes(serve, tmp_path: Path) -> None:
    root = tmp_path / "models"
    for version in ("1", "2"):
        code = SAYING.replace("{word}", f"old {version}")
        write_model(root, f"one/{version}", "model.Model", code, name="one", parameters={"version": version})
    write_model(root, "echo", "faulty_models.Echo")
    server = serve(root, "--reload")
    put(root / "one/2/model-settings.json", "{")
    eventually(lambda: KEPT in index(server)["one", "2"][1], 20)

    put(root / "one/1/model.py", SAYING.replace("{word}", "new 1"))

    url = f"{server.url}/v2/models/one/versions/1/infer"
    word = lambda: httpx.post(url, json=text(), timeout=10).json()["outputs"][0]["data"][0]  # noqa: E731
    eventually(lambda: word() == "new 1", 20)
    assert said(server) == "old 2"
    assert index(server)["one", "1"] == ("READY", "")
    assert KEPT in index(server)["one", "2"][1]

    shutil.rmtree(root / "one/2")

    eventually(lambda: ("one", "2") not in index(server), 20)
    assert "[one:2] INFO - no longer in the repository; it is unloaded" in server.text()
    assert said(server) == "new 1"


def test_a_model_that_never_loaded_comes_and_goes_with_its_settings(serve, tmp_path: Path) -> None:
    root = tmp_path / "models"
    write_model(root, "echo", "faulty_models.Echo")
    bad = write_model(root, "bad", "model.Model", SAYING.replace("{word}", "fine"))
    (bad / "model-settings.json").write_text("{")
    server = serve(root, "--reload")
    ready = lambda: httpx.get(f"{server.url}/v2/health/ready").status_code == 200  # noqa: E731
    assert index(server)["bad", ""][0] == "UNAVAILABLE"
    assert not ready()

    put(bad / "model-settings.json", '{"implementation": 7}')
    eventually(lambda: "implementation" in index(server)["bad", ""][1], 20)
    eventually(lambda: server.text().count("Model bad cannot be loaded") == 1)

    shutil.rmtree(bad)
    eventually(lambda: ("bad", "") not in index(server) and ready(), 20)
    assert "Model bad is no longer in the repository." in server.text()

    write_model(root, "bad", "model.Model", SAYING.replace("{word}", "fine"))
    eventually(lambda: index(server).get(("bad", "")) == ("READY", ""), 20)
    assert ready()

    later = write_model(tmp_path / "outside", "later", "model.Model", SAYING)
    (later / "model-settings.json").write_text("{")
    later.rename(root / "later")
    eventually(lambda: "Model later cannot be loaded: later/model-settings.json" in server.text(), 20)
    assert "line 1 column 2" in index(server)["later", ""][1]
