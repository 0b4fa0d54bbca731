"""What a reload says, in the log and in the index, of settings and code that are wrong, gone, and right again."""

import json
import shutil
from collections.abc import Callable, Iterator
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


def settings(at: Path, **changes: object) -> str:
    """Of the model in a folder, whose name only its settings know."""
    return json.dumps({"implementation": "model.Model", "name": f"named {at.name}", **changes})


def index(server: Running) -> dict[tuple[str, str], tuple[str, str]]:
    items = httpx.post(f"{server.url}/v2/repository/index", timeout=10).json()
    return {(item["name"], item["version"]): (item["state"], item["reason"]) for item in items}


def said(server: Running, name: str) -> str:
    word: str = server.infer(name, text()).json()["outputs"][0]["data"][0]
    return word


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "invalid JSON": (lambda at: put(at / "model-settings.json", "{"), "line 1 column 2"),
    "a wrong field": (
        lambda at: put(at / "model-settings.json", settings(at, max_queue="many")),
        "max_queue",
    ),
    "no such module": (
        lambda at: put(at / "model-settings.json", settings(at, implementation="nothing_here.Model")),
        "nothing_here",
    ),
    "no such class": (
        lambda at: put(at / "model-settings.json", settings(at, implementation="model.Nobody")),
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
            at / "model-settings.json",
            settings(at, parameters={"version": "2"}, implementation="model.Nobody"),
        ),
        "Nobody",
    ),
}


def served(root: Path, workers: int, *flags: str) -> Iterator[Running]:
    """A server with one model for each change, so that none sees another's, beside one that stays as it is."""
    write_model(root, "echo", "faulty_models.Echo")
    for change in CHANGES:
        at = write_model(root, change, "model.Model", SAYING.replace("{word}", "old"))
        put(at / "model-settings.json", settings(at))
    running = Running(root, *flags, INFERSTREAM_PARALLEL_WORKERS=str(workers))
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture(scope="module")
def asked(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Reloads when it is asked to."""
    yield from served(tmp_path_factory.mktemp("asked") / "models", workers)


@pytest.fixture(scope="module")
def watching(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Reloads what changes."""
    yield from served(tmp_path_factory.mktemp("watching") / "models", workers, "--reload")


@pytest.mark.parametrize("change", CHANGES)
def test_broken_change_is_in_log_and_index_until_repaired(watching: Running, change: str) -> None:
    make, reason = CHANGES[change]
    at, name = watching.folder / change, f"named {change}"
    kept = lambda: [line for line in watching.text().splitlines() if KEPT in line and name in line]  # noqa: E731
    before = index(watching)
    assert before[name, ""] == ("READY", "")

    make(at)

    eventually(kept, 20)
    line = kept()[0]
    assert "ERROR" in line
    assert reason in line
    state, why = index(watching)[name, ""]
    assert state == "READY"
    assert reason in why
    assert KEPT in why
    assert str(watching.folder) not in why
    assert said(watching, name) == "old"
    assert httpx.get(f"{watching.url}/v2/health/ready").status_code == 200

    at.mkdir(exist_ok=True)
    put(at / "model.py", SAYING.replace("{word}", "new"))
    put(at / "model-settings.json", settings(at))

    eventually(lambda: said(watching, name) == "new" and index(watching)[name, ""] == ("READY", ""), 20)
    assert index(watching) == before
    eventually(lambda: f"reloaded model {name}" in watching.text())
    watching.probe()


@pytest.mark.parametrize("change", CHANGES)
def test_requested_load_reports_same_error(asked: Running, change: str) -> None:
    make, reason = CHANGES[change]
    name = f"named {change}"
    make(asked.folder / change)

    refused = httpx.post(f"{asked.url}/v2/repository/models/{name}/load", timeout=20)

    assert refused.status_code >= 400
    assert reason in refused.json()["error"]
    assert KEPT in refused.json()["error"]
    with grpc.insecure_channel(asked.grpc) as channel, pytest.raises(grpc.RpcError) as failure:
        GRPCInferenceServiceStub(channel).RepositoryModelLoad(RepositoryModelLoadRequest(model_name=name))
    assert KEPT in failure.value.details()
    assert sum(KEPT in line and name in line for line in asked.text().splitlines()) == 2
    state, why = index(asked)[name, ""]
    assert (state, KEPT in why) == ("READY", True)
    assert said(asked, name) == "old"

    assert httpx.post(f"{asked.url}/v2/repository/models/{name}/unload", timeout=20).status_code == 200
    assert KEPT not in str([found for (model, _), found in index(asked).items() if model == name])


def test_broken_version_keeps_serving_while_other_changes(serve, tmp_path: Path) -> None:
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
    assert said(server, "one") == "old 2"
    assert index(server)["one", "1"] == ("READY", "")
    assert KEPT in index(server)["one", "2"][1]

    shutil.rmtree(root / "one/2")

    eventually(lambda: ("one", "2") not in index(server), 20)
    assert "[one:2] INFO - no longer in the repository; unloading" in server.text()
    assert said(server, "one") == "new 1"


def test_never_loaded_model_follows_its_settings(serve, tmp_path: Path) -> None:
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
