"""Broken, duplicate, hanging, moving and hostile models in the repository."""

import json
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import httpx
import pytest

from inferstream.protos.dataplane_pb2 import RepositoryIndexRequest, RepositoryModelLoadRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, eventually, fp32, text, write_model

GOOD = "faulty_models.Echo"


def index(server: Running) -> dict[str, dict]:
    return {item["name"]: item for item in httpx.post(f"{server.url}/v2/repository/index", timeout=10).json()}


def load(server: Running, name: str, action: str = "load", **options) -> httpx.Response:
    return httpx.post(f"{server.url}/v2/repository/models/{name}/{action}", timeout=30, **options)


BROKEN = {
    "bad-json": ("{", "line 1"),
    "no-implementation": ("{}", "implementation"),
    "not-a-path": ('{"implementation": "model"}', "module.Class"),
    "no-such-module": ('{"implementation": "nothing_here.Model"}', "nothing_here"),
    "no-such-class": ('{"implementation": "faulty_models.Nobody"}', "Nobody"),
    "not-a-model": ('{"implementation": "os.path.join"}', "join"),
    "not-a-subclass": ('{"implementation": "collections.OrderedDict"}', "MLModel"),
    "wrong-type": ('{"implementation": "faulty_models.Echo", "max_queue": "many"}', "max_queue"),
    "bad-name": ('{"implementation": "faulty_models.Echo", "name": "../x"}', "name"),
    "raises": ('{"implementation": "loading.Raises"}', "RuntimeError: no weights"),
    "returns-false": ('{"implementation": "loading.ReturnsFalse"}', "returned False"),
    "exits": ('{"implementation": "loading.Exits"}', "SystemExit"),
    "hangs": ('{"implementation": "loading.Hangs"}', "within 5 s"),
}
LOADING = """
import asyncio, time
from inferstream import MLModel
class Raises(MLModel):
    async def load(self): raise RuntimeError("no weights")
class ReturnsFalse(MLModel):
    def load(self): return False
class Exits(MLModel):
    def load(self): raise SystemExit(3)
class Hangs(MLModel):
    async def load(self): await asyncio.sleep(60)
class ReturnsNone(MLModel):
    def load(self): pass
    def predict(self, payload): return self.encode_response(["fine"])
"""


@pytest.fixture(scope="module")
def unready(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server whose repository is wrong in every way that leaves the other models alone."""
    root = tmp_path_factory.mktemp("unready")
    folder = root / "models"
    write_model(folder, "echo", GOOD)
    for name, (settings, _) in BROKEN.items():
        at = write_model(folder, name, GOOD)
        (at / "loading.py").write_text(LOADING)
        (at / "model-settings.json").write_text(settings)
    write_model(folder, "returns-none", "loading.ReturnsNone", LOADING)
    write_model(folder, "first", GOOD, name="twin")
    write_model(folder, "second", GOOD, name="twin")
    outside = write_model(root / "outside", "model", GOOD)
    (folder / "link").mkdir()
    (folder / "link" / "model-settings.json").symlink_to(outside / "model-settings.json")
    (folder / "settings.json").write_text(json.dumps({"model_load_timeout": 5, "parallel_workers": workers}))
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


def test_broken_model_is_isolated_and_reported_in_index(unready: Running) -> None:
    unready.probe()
    assert unready.infer("returns-none", text()).json()["outputs"][0]["data"] == ["fine"]
    assert httpx.get(f"{unready.url}/v2/health/ready").status_code == 503
    found = index(unready)
    for name, (_, reason) in BROKEN.items():
        assert found[name]["state"] == "UNAVAILABLE"
        assert reason in found[name]["reason"], found[name]
        assert str(unready.folder.parent) not in found[name]["reason"]
    refused = unready.infer("raises", text())
    assert refused.status_code == 503
    assert refused.json()["error"] == "Model raises did not load; the server's log says why."


def test_duplicate_model_names_are_refused_with_paths(unready: Running) -> None:
    reason = index(unready)["twin"]["reason"]
    assert "first/model-settings.json" in reason
    assert "second/model-settings.json" in reason
    unready.probe()


def test_link_out_of_repository_is_refused(unready: Running) -> None:
    assert "leads out" in index(unready)["link"]["reason"]
    unready.probe()


REFUSING = """
from mlserver import MLModel
from mlserver.errors import InvalidModelURI, MLServerError
class Teapot(MLModel):
    async def load(self): raise MLServerError("no tea", status_code=418)
class Astray(MLModel):
    async def load(self): raise InvalidModelURI(self.name, "nowhere")
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_model_status_during_load_is_its_own(serve, tmp_path, workers: int) -> None:
    folder = tmp_path / "models"
    write_model(folder, "teapot", "refusing.Teapot", REFUSING)
    write_model(folder, "astray", "refusing.Astray", REFUSING)
    write_model(folder, "raises", "loading.Raises", LOADING)
    (folder / "settings.json").write_text(json.dumps({"parallel_workers": workers}))
    server = serve(folder)

    for name, status, message, code in (
        ("teapot", 418, "Model teapot did not load: no tea", grpc.StatusCode.INVALID_ARGUMENT),
        (
            "astray",
            422,
            "Model astray did not load: Invalid URI specified for model astray (nowhere)",
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
        ("raises", 500, "Model raises did not load: RuntimeError: no weights", grpc.StatusCode.INTERNAL),
    ):
        refused = load(server, name)
        assert (refused.status_code, refused.json()["error"]) == (status, message)
        with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError) as failure:
            GRPCInferenceServiceStub(channel).RepositoryModelLoad(
                RepositoryModelLoadRequest(model_name=name), timeout=30
            )
        assert (failure.value.code(), failure.value.details()) == (code, message)


def test_strict_mode_makes_broken_model_fatal(serve, tmp_path) -> None:
    folder = tmp_path / "models"
    write_model(folder, "raises", "loading.Raises", LOADING)
    server = serve(folder, "--strict", wait=False)
    assert server.process.wait(20) == 1
    assert "no weights" in server.text().splitlines()[-1]


CODE = """
import sibling
from inferstream import MLModel
class Model(MLModel):
    async def predict(self, payload):
        return self.encode_response([sibling.WORD])
"""


@pytest.fixture(scope="module")
def healthy(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server on a repository that tests change, each its own models, and leave without an error."""
    folder = tmp_path_factory.mktemp("healthy") / "models"
    for name in ("echo", "a", "b", "gone"):
        write_model(folder, name, GOOD)
    write_model(folder, "slow", "faulty_models.Slow")
    for name in ("one", "two", "reloaded"):
        at = write_model(folder, name, "model.Model", CODE)
        (at / "sibling.py").write_text(f"WORD = {name!r}")
    (folder / "settings.json").write_text(json.dumps({"parallel_workers": workers}))
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


def test_models_with_same_module_name_share_no_code(healthy: Running) -> None:
    for name in ("one", "two"):
        assert healthy.infer(name, text()).json()["outputs"][0]["data"] == [name]


def test_reload_runs_new_code_and_failed_reload_keeps_old(healthy: Running) -> None:
    at = healthy.folder / "reloaded"
    assert healthy.infer("reloaded", text()).json()["outputs"][0]["data"] == ["reloaded"]

    (at / "sibling.py").write_text("WORD = 'newer'")
    assert load(healthy, "reloaded").status_code == 200
    assert healthy.infer("reloaded", text()).json()["outputs"][0]["data"] == ["newer"]

    (at / "sibling.py").write_text("1/0")
    failed = load(healthy, "reloaded")
    assert failed.status_code == 500
    assert "ZeroDivisionError" in failed.json()["error"]
    assert healthy.infer("reloaded", text()).json()["outputs"][0]["data"] == ["newer"]


def test_late_load_failure_keeps_other_models_ready(healthy: Running) -> None:
    write_model(healthy.folder, "raises", "loading.Raises", LOADING)

    assert load(healthy, "raises").status_code == 500

    assert "no weights" in index(healthy)["raises"]["reason"]
    assert httpx.get(f"{healthy.url}/v2/health/ready").status_code == 200
    healthy.probe()


def test_changed_files_reload_on_request(serve, tmp_path) -> None:
    folder = tmp_path / "models"
    at = write_model(folder, "one", "model.Model", CODE)
    (at / "sibling.py").write_text("WORD = 'before'")
    server = serve(folder, "--reload")
    word = lambda: server.infer("one", text()).json()["outputs"][0]["data"]  # noqa: E731
    assert word() == ["before"]

    def changed() -> bool:
        # Renamed into place: a reload between truncating and writing would find an empty module.
        (at / "sibling.new").write_text("WORD = 'afterwards'")
        (at / "sibling.new").replace(at / "sibling.py")
        return word() == ["afterwards"]

    eventually(changed, 15)


def test_unload_drains_calls_and_removes_model(healthy: Running) -> None:
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(healthy.infer, "slow", text(id="last", parameters={"seconds": 1}))
        eventually(lambda: healthy.noted("start last"))
        unloaded = pool.submit(
            load, healthy, "slow", "unload", json={"parameters": {"unload_dependents": True}}
        )
        eventually(lambda: healthy.infer("slow", text()).status_code == 404)
        assert answer.result().status_code == 200
        assert unloaded.result().status_code == 200
    assert httpx.get(f"{healthy.url}/v2/models/slow/ready").status_code == 404
    assert httpx.get(f"{healthy.url}/v2/health/ready").status_code == 200
    assert index(healthy)["slow"]["state"] == "UNAVAILABLE"
    assert load(healthy, "slow").status_code == 200
    assert load(healthy, "nobody", "unload").status_code == 404


def test_unload_ends_endless_stream_after_grace_period(serve, tmp_path) -> None:
    folder = tmp_path / "models"
    write_model(folder, "streaming", "faulty_models.Streaming")
    (folder / "settings.json").write_text('{"shutdown_grace": 0.5}')
    server = serve(folder)
    with ThreadPoolExecutor() as pool:
        endless = text(id="endless", parameters={"items": 10**6, "delay": 0.1})
        stream = pool.submit(server.infer, "streaming", endless, "generate_stream")
        eventually(lambda: server.noted("start endless"))
        assert load(server, "streaming", "unload").status_code == 200
        assert '"code":"draining"' in stream.result().text
    assert server.noted("finally endless")


def test_reload_under_load_loses_no_call(healthy: Running) -> None:
    done = threading.Event()
    statuses: list[int] = []

    def ask() -> None:
        with httpx.Client() as client:
            while not done.is_set():
                answer = client.post(f"{healthy.url}/v2/models/echo/infer", json=fp32([1.0]), timeout=10)
                statuses.append(answer.status_code)

    asking = [threading.Thread(target=ask) for _ in range(4)]
    for thread in asking:
        thread.start()
    for _ in range(10):
        assert load(healthy, "echo").status_code == 200
    done.set()
    for thread in asking:
        thread.join()
    assert len(statuses) > 50
    assert set(statuses) == {200}


def test_concurrent_loads_and_unloads_finish(healthy: Running) -> None:
    with ThreadPoolExecutor(16) as pool:
        actions = [("a", "load"), ("a", "unload"), ("b", "load"), ("b", "unload")] * 32
        answers = list(pool.map(lambda job: load(healthy, *job).status_code, actions))

    assert set(answers) <= {200, 404, 409}
    for name in ("a", "b"):
        assert load(healthy, name).status_code == 200
    assert httpx.get(f"{healthy.url}/v2/health/ready").status_code == 200
    healthy.probe()


def test_model_with_deleted_folder_keeps_serving(healthy: Running) -> None:
    shutil.rmtree(healthy.folder / "gone")

    assert healthy.infer("gone", fp32([1.0])).status_code == 200
    assert load(healthy, "gone").status_code == 404


@pytest.mark.parametrize(
    "name", ["..%2f..%2fetc", "%2e%2e", "..", "a%00b", "a%5c..%5cb", "%2fetc%2fpasswd", "nobody"]
)
def test_path_traversal_names_are_not_found(server: Running, name: str) -> None:
    assert load(server, name).status_code in (400, 404)
    assert server.infer(name, text()).status_code in (400, 404)
    server.probe()


@pytest.mark.parametrize(
    "parameters",
    [{"config": "{}"}, {"implementation": "os.system"}, {"uri": "http://x"}, {"file:1/m.py": "eA=="}],
)
def test_load_accepts_only_a_name(server: Running, parameters: dict) -> None:
    assert load(server, "echo", json={"parameters": parameters}).status_code == 400
    server.probe()


def test_repository_is_closed_beyond_loopback_by_default(start, tmp_path) -> None:
    folder = tmp_path / "models"
    write_model(folder, "echo", GOOD)
    server = start(folder, "--host", "0.0.0.0")
    assert "repository API, access log, documentation and reflection are closed" in server.text()
    for answer in (
        httpx.post(f"{server.url}/v2/repository/index"),
        load(server, "echo"),
        load(server, "echo", "unload"),
    ):
        assert answer.status_code == 403
    with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError) as failure:
        GRPCInferenceServiceStub(channel).RepositoryIndex(RepositoryIndexRequest(), timeout=10)
    assert failure.value.code() is grpc.StatusCode.PERMISSION_DENIED
    server.probe()

    opened = start(folder, "--host", "0.0.0.0", INFERSTREAM_ALLOW_OPEN_REPOSITORY="true")
    assert httpx.post(f"{opened.url}/v2/repository/index").status_code == 200


def test_single_model_folder_and_model_from_environment(serve, tmp_path) -> None:
    folder = write_model(tmp_path, "single", GOOD)
    assert serve(folder).infer("single", fp32([1.0])).status_code == 200

    empty = tmp_path / "empty"
    empty.mkdir()
    shutil.copy(folder / "faulty_models.py", tmp_path)
    server = serve(
        empty, MLSERVER_MODEL_IMPLEMENTATION=GOOD, MLSERVER_MODEL_NAME="from-env", PYTHONPATH=str(tmp_path)
    )
    assert server.infer("from-env", fp32([1.0])).status_code == 200


def test_thousands_of_models_are_indexed_while_serving(start, tmp_path) -> None:
    folder = tmp_path / "models"
    write_model(folder, "echo", GOOD)
    for number in range(2_000):
        (folder / f"m{number}").mkdir()
        (folder / f"m{number}" / "model-settings.json").write_text('{"implementation": "none.None"}')
    server = start(folder, within=120, INFERSTREAM_LOAD_MODELS_AT_STARTUP="false")
    with ThreadPoolExecutor() as pool:
        indexing = pool.submit(httpx.post, f"{server.url}/v2/repository/index", timeout=60)
        assert httpx.get(f"{server.url}/v2/health/live", timeout=20).status_code == 200
        assert len(indexing.result().json()) == 2_001


HEAVY = """
from inferstream import MLModel
class Heavy(MLModel):
    def load(self): self.weights = bytearray(b"x" * 2**26)
    def predict(self, payload): return self.encode_response(["fine"])
"""


def test_unloaded_model_frees_memory(serve, tmp_path) -> None:
    folder = tmp_path / "models"
    write_model(folder, "echo", GOOD)
    write_model(folder, "heavy", "heavy.Heavy", HEAVY)
    server = serve(folder)
    loaded = server.rss()
    for _ in range(5):
        assert load(server, "heavy", "unload").status_code == 200
        assert load(server, "heavy").status_code == 200
    eventually(lambda: server.rss() < loaded + 2**25, 20)
    assert load(server, "heavy", "unload").status_code == 200
    eventually(lambda: server.rss() < loaded - 2**25, 20)
