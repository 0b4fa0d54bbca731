"""Loads, reloads and versions of models whose folders have modules of the same names."""

import json
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import httpx
import joblib
import pytest

from ..serving import Running, eventually, write_model

MODEL = """
    import pickle
    from concurrent.futures import ThreadPoolExecutor

    import utils
    from inferstream import MLModel, decode_args
    from prometheus_client import Counter, Gauge, Histogram

    CALLS = Counter("my_calls", "calls", ["who"])
    TOTAL = Counter("my_total_calls", "calls")
    SECONDS = Histogram("my_seconds", "seconds", buckets=(1, 2))
    {more}

    class M(MLModel):
        @decode_args
        def predict(self, what: str) -> str:
            CALLS.labels(utils.WHO).inc()
            TOTAL.inc()
            SECONDS.observe(1.5)
            from utils import WHO

            assert WHO == utils.WHO
            return str(eval(what))
"""
Serve = Callable[..., Running]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    running: list[Running] = []

    def start(*flags: str, **options: object) -> Running:
        running.append(Running(tmp_path / "models", *flags, **options))
        return running[-1]

    yield start
    for each in running:
        each.stop()


def write(root: Path, at: str, who: str, more: str = "", **settings: object) -> Path:
    folder = write_model(root / "models", at, "model.M", dedent(MODEL).format(more=more), **settings)
    (folder / "utils.py").write_text(f'WHO = "{who}"\n\n\nclass Plain:\n    who = WHO\n')
    return folder


def call(server: Running, model: str, what: str = "WHO") -> str:
    body = {"inputs": [{"name": "what", "datatype": "BYTES", "shape": [1], "data": [what]}]}
    answer = server.infer(model, body)
    return answer.json()["outputs"][0]["data"][0] if answer.status_code == 200 else answer.text


def change(server: Running, model: str, action: str) -> httpx.Response:
    return httpx.post(f"{server.url}/v2/repository/models/{model}/{action}", json={}, timeout=20)


WORKERS = pytest.mark.parametrize("workers", [0, 1])


@WORKERS
def test_reload_takes_new_code_of_one_model_and_keeps_metrics(
    tmp_path: Path, serve: Serve, workers: int
) -> None:
    write(tmp_path, "a", "a")
    write(tmp_path, "b", "b")
    server = serve("--workers", str(workers))
    assert [call(server, who) for who in "ab"] == ["a", "b"]
    (tmp_path / "models" / "a" / "utils.py").write_text('WHO = "new"\n')
    assert change(server, "a", "load").status_code == 200
    assert [call(server, who) for who in "ab"] == ["new", "b"]
    eventually(lambda: server.metric("my_total_calls_total") == 4)
    assert [server.metric("my_calls_total", who=who) for who in ("a", "b", "new")] == [1, 2, 1]
    assert server.metric("my_seconds_count") == 4


@WORKERS
def test_failed_load_keeps_old_code(tmp_path: Path, serve: Serve, workers: int) -> None:
    folder = write(tmp_path, "a", "a")
    write(tmp_path, "b", "b")
    server = serve("--workers", str(workers))
    (folder / "model.py").write_text("import utils\nimport missing\n")
    (folder / "utils.py").write_text('WHO = "new"\n')
    refused = change(server, "a", "load")
    assert refused.status_code == 500
    assert "No module named 'missing'" in refused.text
    assert [call(server, who) for who in "ab"] == ["a", "b"]


@WORKERS
def test_model_serves_while_another_with_its_modules_is_unloaded(
    tmp_path: Path, serve: Serve, workers: int
) -> None:
    write(tmp_path, "a", "a")
    write(tmp_path, "b", "b")
    server = serve("--workers", str(workers))
    assert change(server, "a", "unload").status_code == 200
    assert call(server, "b", "pickle.loads(pickle.dumps(utils.Plain())).who") == "b"
    assert change(server, "a", "load").status_code == 200
    assert [call(server, who) for who in "ab"] == ["a", "b"]


@WORKERS
def test_versions_with_own_code_share_metric(tmp_path: Path, serve: Serve, workers: int) -> None:
    for version in ("1", "2"):
        write(tmp_path, version, version, name="m", parameters={"version": version})
    server = serve("--workers", str(workers))
    assert [call(server, f"m/versions/{version}") for version in ("1", "2")] == ["1", "2"]
    eventually(lambda: server.metric("my_total_calls_total") == 2)


@WORKERS
def test_models_and_reloads_select_process_start_method(tmp_path: Path, serve: Serve, workers: int) -> None:
    more = 'import multiprocessing\nmultiprocessing.set_start_method("spawn")\n\n\ndef who():\n    return utils.WHO'
    for who in "ab":
        write(tmp_path, who, who, more)
    server = serve("--workers", str(workers))
    for who in "ab":
        assert change(server, who, "load").status_code == 200
        assert call(server, who, "multiprocessing.Pool(1).apply(who)") == who


def test_metric_with_changed_labels_replaces_only_its_own(tmp_path: Path, serve: Serve) -> None:
    write(tmp_path, "a", "a", 'SIZE = Gauge("my_size", "size", ["old"])')
    server = serve()
    write(tmp_path, "a", "a", 'SIZE = Gauge("my_size", "size", ["new"])')
    assert change(server, "a", "load").status_code == 200
    assert call(server, "a", "SIZE.labels(new=1).set(3)") == "None"
    assert server.metric("my_size", new="1") == 3
    write(tmp_path, "b", "b", 'SIZE = Gauge("my_size", "size", ["other"])')
    refused = change(server, "b", "load")
    assert refused.status_code == 500
    assert "different metrics" in server.text()
    for who in "ab":
        assert str(tmp_path / "models" / who / "model.py") in server.text()


def test_duplicate_metric_in_one_module_is_an_error(tmp_path: Path, serve: Serve) -> None:
    write(tmp_path, "a", "a", 'Counter("my_total_calls", "calls")')
    server = serve()
    assert "Duplicated timeseries" in server.text()


def test_unpickling_thread_never_gets_class_of_other_model(tmp_path: Path, serve: Serve) -> None:
    for who in "ab":
        write(tmp_path, who, who)
    server = serve()
    pickled = "b'cutils\\nPlain\\n.'"
    assert call(server, "a", f"pickle.loads({pickled}).who") == "a"
    assert "failed" in call(server, "a", f"ThreadPoolExecutor().submit(pickle.loads, {pickled}).result().who")
    for who in "ab":
        assert str(tmp_path / "models" / who / "utils") in server.text()
    assert (
        call(server, "b", f"ThreadPoolExecutor().submit(lambda: pickle.loads({pickled})).result().who") == "b"
    )


def test_ambiguous_pickled_name_is_an_error_naming_both_modules(tmp_path: Path, serve: Serve) -> None:
    write(tmp_path, "a", "a")
    (tmp_path / "utils.py").write_text('WHO = "shared"\n\n\nclass Plain:\n    who = WHO\n')
    write_model(tmp_path / "models", "plain", "other.M", dedent(MODEL).format(more=""))
    server = serve()
    assert [call(server, who) for who in ("a", "plain")] == ["a", "shared"]
    assert "failed" in call(server, "a", "pickle.loads(b'cutils\\nPlain\\n.').who")
    assert f"{tmp_path}/models/a/utils.py and {tmp_path}/utils.py" in server.text()
    assert call(server, "plain", "pickle.loads(b'cutils\\nPlain\\n.').who") == "shared"


def test_model_without_module_does_not_get_one_of_other_model(tmp_path: Path, serve: Serve) -> None:
    write(tmp_path, "a", "a")
    folder = write(tmp_path, "b", "b")
    server = serve()
    (folder / "utils.py").unlink()
    refused = change(server, "b", "load")
    assert refused.status_code == 500
    assert "No module named 'utils'" in refused.text
    assert "model_folders" not in refused.text
    assert call(server, "a") == "a"


@WORKERS
def test_artefacts_with_same_class_name_use_adjacent_code(
    tmp_path: Path, serve: Serve, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for who in (1, 2, 3):
        folder = tmp_path / "models" / str(who) / "deep"
        folder.mkdir(parents=True)
        code = f"class Adder:\n    def predict(self, rows):\n        return rows[:, 0] + {who}\n"
        (folder / "prep.py").write_text(code)
        module = types.ModuleType("prep")
        exec(code, vars(module))
        monkeypatch.setitem(sys.modules, "prep", module)
        joblib.dump(module.Adder(), folder / "model.joblib")
        settings = {"name": str(who), "implementation": "mlserver_sklearn.SKLearnModel"}
        (folder / "model-settings.json").write_text(json.dumps(settings))
    monkeypatch.delitem(sys.modules, "prep")
    server = serve("--workers", str(workers))
    body = {"inputs": [{"name": "x", "datatype": "FP64", "shape": [1, 1], "data": [10.0]}]}
    answers = [server.infer(str(who), body).json() for who in (1, 2, 3)]
    assert [a.get("outputs", [{"data": a}])[0]["data"] for a in answers] == [[11], [12], [13]], server.text()


APP = "{line}\nfrom inferstream import App\napp = App()\n\n\n@app.model\ndef f(x: int) -> int:\n    return g(x)\n"
CLASS = (
    "from .helpers import g\nfrom inferstream import MLModel, decode_args\n\n\n"
    "class f(MLModel):\n    @decode_args\n    def predict(self, x: int) -> int:\n        return g(x)\n"
)
LINES = {
    "relative": "from .helpers import g",
    "absolute": "from pkg.helpers import g",
    "beside": "from helpers import g",
    "parent": "from ..above import g",
}


@WORKERS
@pytest.mark.parametrize("target", ["src/pkg/app.py", "src/pkg/app.py:app", "src/pkg"])
@pytest.mark.parametrize("line", [*LINES, "class"])
def test_app_in_package_is_served_by_file(
    tmp_path: Path, serve: Serve, line: str, target: str, workers: int
) -> None:
    if line == "class" and target != "src/pkg/app.py":
        pytest.skip("classes are found in a file without a name")
    folder = tmp_path / "src" / "pkg"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "helpers.py").write_text("def g(x):\n    return x + 1\n")
    if line == "parent":
        (folder.parent / "__init__.py").touch()
        (folder.parent / "above.py").write_text("def g(x):\n    return x + 1\n")
    (folder / "app.py").write_text(CLASS if line == "class" else APP.format(line=LINES[line]))
    server = serve("--workers", str(workers), target=target)
    assert (
        httpx.post(f"{server.url}/v2/models/f/generate", json={"x": 1}).json()[
            "output" if line != "class" else "output-0"
        ]
        == 2
    )
