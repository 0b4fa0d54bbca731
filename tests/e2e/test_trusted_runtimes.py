"""With a list of trusted runtimes, no code of a model folder runs, whichever way it is named."""

import json
import pickle
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from zipfile import ZipFile

import grpc
import httpx
import pytest
from google.protobuf.message_factory import GetMessageClass

from inferstream.protos.pool import POOL
from tests.artefacts import models
from tests.serving import Running

LISTED = [
    "mlserver_sklearn.SKLearnModel",
    "inferstream.plugins.triton.model.PythonModel",
    "inferstream.plugins.torchserve.model.ArchiveModel",
    "mlserver_onnx.OnnxModel",
    "inferstream.plugins.llm.engine.Engine",
]
NOT_LISTED = "is not a trusted runtime of this server"


def code(name: str, rest: str = "") -> str:
    """A module that leaves its name when it is imported."""
    return f"import os\nwith open(os.environ['TEST_LOG'], 'a') as log: log.write('{name}.\\n')\n{rest}"


CLASS = """
from inferstream import MLModel
class M(MLModel):
    def load(self): return True
    def predict(self, payload): return payload
"""
APP = "from inferstream import App\napp = App()\n@app.model\ndef double(n: int) -> int: return 2 * n\n"
TRITON = """
class TritonPythonModel:
    def execute(self, requests): return []
"""
PBTXT = 'backend: "python"\nmax_batch_size: 0\n'


class Attack(NamedTuple):
    """A model folder, and the reason why its model does not load."""

    files: dict[str, str]
    reason: str
    settings: dict[str, object] | None = None
    artefact: bool = False


SKLEARN = {"implementation": "mlserver_sklearn.SKLearnModel"}

ONNX = "mlserver_onnx.OnnxModel"


def options(implementation: str, uri: str, **extra: object) -> dict[str, object]:
    return {"implementation": implementation, "parameters": {"uri": uri, "extra": extra}}


ATTACKS = {
    "predict-fn": Attack(
        {},
        '"predict_fn" in parameters.extra of the uploaded model',
        options("mlserver_sklearn.SKLearnModel", "model.joblib", predict_fn="set_params"),
        artefact=True,
    ),
    **{
        f"onnx-{name}": Attack({"model.onnx": ""}, where, options(ONNX, "model.onnx", **{option: value}))
        for name, where, option, value in (
            (
                "written-file",
                '"optimized_model_filepath" in session_options',
                "session_options",
                {"optimized_model_filepath": "/tmp/x"},
            ),
            ("entries", '"session_config_entries" in', "session_config_entries", {"ep.context_enable": "1"}),
            ("providers", "options of providers in", "providers", [["CPUExecutionProvider", {"a": "b"}]]),
        )
    },
    "class": Attack({"model.py": CLASS}, NOT_LISTED, {"implementation": "model.M"}),
    "function": Attack({"model.py": "def f(n: int): ..."}, NOT_LISTED, {"implementation": "model.f"}),
    "package": Attack({"own/__init__.py": CLASS}, NOT_LISTED, {"implementation": "own.M"}),
    "app": Attack({"app.py": APP}, NOT_LISTED, {"implementation": "app:app/double"}),
    "other-runtime": Attack({"model.json": "{}"}, NOT_LISTED, {"implementation": "xgboost"}),
    "standard-library": Attack({}, NOT_LISTED, {"implementation": "idlelib.idle.X"}),
    "class-of-numpy": Attack({}, NOT_LISTED, {"implementation": "numpy.Ndarray"}),
    "on-demand": Attack({"model.py": CLASS}, NOT_LISTED, {"implementation": "model.M", "load": "demand"}),
    "own-workers": Attack(
        {"model.py": CLASS}, NOT_LISTED, {"implementation": "model.M", "parallel_workers": 1}
    ),
    "triton": Attack(
        {"config.pbtxt": PBTXT, "1/model.py": TRITON}, "the module model is a file of the model"
    ),
    "environment-path": Attack(
        {"env/bin/python": "#!/bin/sh\necho environment-path. >> $TEST_LOG\n"},
        '"environment_path" of the uploaded model',
        {**SKLEARN, "parameters": {"uri": "model.joblib", "environment_path": "env"}},
        artefact=True,
    ),
    "environment-tarball": Attack(
        {},
        '"environment_tarball" of the uploaded model',
        {**SKLEARN, "parameters": {"uri": "model.joblib", "environment_tarball": "env.tar.gz"}},
        artefact=True,
    ),
    "trust": Attack(
        {},
        '"trust_remote_code" of the uploaded model',
        {**SKLEARN, "trust_remote_code": True, "parameters": {"uri": "model.joblib"}},
        artefact=True,
    ),
    "trust-in-extra": Attack(
        {},
        '"trust_remote_code" of the uploaded model',
        {**SKLEARN, "parameters": {"uri": "model.joblib", "extra": {"a": [{"trust_remote_code": True}]}}},
        artefact=True,
    ),
    "library-in-extra": Attack(
        {},
        '"trt_extra_plugin_lib_paths" of the uploaded model',
        {
            **SKLEARN,
            "parameters": {
                "uri": "model.joblib",
                "extra": {"providers": [["T", {"trt_extra_plugin_lib_paths": "a"}]]},
            },
        },
        artefact=True,
    ),
    "engine-command": Attack(
        {},
        "an engine of the uploaded model",
        {
            "implementation": "engine",
            "parameters": {
                "extra": {
                    "target": "127.0.0.1:1",
                    "command": ["sh", "-c", "echo engine-command. >> $TEST_LOG; sleep 60"],
                }
            },
        },
    ),
    "class-in-a-pickle": Attack({"shapes.py": "class Shape: ..."}, "shapes", SKLEARN),
    "mar": Attack({}, "the module handler is a file of the model"),
}
"""Models that must not load."""

HARMLESS = {
    "listed": Attack({}, "", SKLEARN, artefact=True),
    "long-name": Attack({}, "", {"implementation": "mlserver_sklearn.sklearn.SKLearnModel"}, artefact=True),
    "short-name": Attack({}, "", {"implementation": "sklearn"}, artefact=True),
    "own-name": Attack(
        {}, "", {"implementation": "inferstream.runtimes.sklearn.SKLearnModel"}, artefact=True
    ),
    "no-settings": Attack({}, "", {}, artefact=True),
    "other-mlserver-sklearn": Attack({"mlserver_sklearn.py": CLASS}, "", SKLEARN, artefact=True),
    "other-joblib": Attack({"joblib.py": ""}, "", SKLEARN, artefact=True),
    "other-sklearn": Attack({"sklearn/__init__.py": ""}, "", SKLEARN, artefact=True),
}
"""Models that load, without the code next to them."""


def write(folder: Path, name: str, attack: Attack) -> None:
    (folder / name).mkdir(parents=True)
    for path, text in attack.files.items():
        file = folder / name / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code(name, text) if file.suffix == ".py" else text)
        file.chmod(0o755)
    if attack.artefact:
        models.dumped(models.classifier(), folder / name)
    if attack.settings is not None:
        settings = {"name": name, **SKLEARN, **attack.settings}
        (folder / name / "model-settings.json").write_text(json.dumps(settings))


def write_pickle(folder: Path) -> None:
    """A pickle whose class is in a module next to it."""
    shapes = sys.modules["shapes"] = ModuleType("shapes")
    shapes.Shape = type("Shape", (), {"__module__": "shapes"})  # type: ignore[attr-defined]
    (folder / "model.joblib").write_bytes(pickle.dumps(shapes.Shape()))
    del sys.modules["shapes"]


def write_archive(folder: Path) -> None:
    manifest = {"model": {"modelName": "mar", "modelVersion": "1", "handler": "handler.py"}}
    with ZipFile(folder / "mar.mar", "w") as archive:
        archive.writestr("MAR-INF/MANIFEST.json", json.dumps(manifest))
        archive.writestr("handler.py", code("mar", "def handle(data, context): return data"))
    settings = {"implementation": LISTED[2], "name": "mar", "parameters": {"uri": "mar.mar"}}
    (folder / "model-settings.json").write_text(json.dumps(settings))


def list_runtimes(folder: Path, names: object = LISTED) -> str:
    path = folder / "trusted.json"
    path.write_text(names if isinstance(names, str) else json.dumps(names))
    return str(path)


@pytest.fixture(scope="module", params=[("INFERSTREAM", 0), ("MLSERVER", 1)], ids=["server", "worker"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("trusted")
    folder = root / "models"
    for name, attack in (ATTACKS | HARMLESS).items():
        write(folder, name, attack)
    write_pickle(folder / "class-in-a-pickle")
    write_archive(folder / "mar")
    with tarfile.open(folder / "environment-tarball" / "env.tar.gz", "w:gz") as archive:
        archive.add(folder / "environment-path" / "env", "env")
    (folder / "shapes.py").write_text(code("class-in-a-pickle", "class Shape: ..."))
    prefix, workers = request.param
    variables = {f"{prefix}_TRUSTED_RUNTIMES_FILE": list_runtimes(root)}
    running = Running(folder, within=120, INFERSTREAM_PARALLEL_WORKERS=str(workers), **variables)
    yield running
    assert running.stop() == 0, running.text()


def ran(served: Running, name: str) -> bool:
    """Whether a module or program of this model ran."""
    return served.noted(f"{name}.")


def reasons(served: Running, name: str) -> str:
    index = httpx.post(f"{served.url}/v2/repository/index", json={}).json()
    return " ".join(each["reason"] for each in index if each["name"] == name)


@pytest.mark.parametrize("name", ATTACKS)
def test_code_of_a_model_does_not_run(served: Running, name: str) -> None:
    if name == "on-demand":
        served.infer(name, {"inputs": []})
    assert httpx.get(f"{served.url}/v2/models/{name}/ready").status_code != 200
    loaded = httpx.post(f"{served.url}/v2/repository/models/{name}/load")
    assert loaded.status_code >= 400, loaded.text
    assert ATTACKS[name].reason in reasons(served, name) + loaded.text + served.text()
    assert not ran(served, name)


@pytest.mark.parametrize("name", HARMLESS)
def test_listed_runtimes_load_without_the_code_next_to_the_model(served: Running, name: str) -> None:
    assert httpx.get(f"{served.url}/v2/models/{name}/ready").status_code == 200, served.text()
    assert not ran(served, name)


def test_models_that_arrive_later_are_checked(served: Running) -> None:
    write(served.folder, "late", ATTACKS["class"])
    loaded = httpx.post(f"{served.url}/v2/repository/models/late/load")
    assert (loaded.status_code, NOT_LISTED in loaded.text, ran(served, "late")) == (400, True, False)
    write(served.folder, "changed", HARMLESS["listed"])
    assert httpx.post(f"{served.url}/v2/repository/models/changed/load").status_code == 200
    (served.folder / "changed" / "model.py").write_text(code("changed", CLASS))
    settings = {"name": "changed", "implementation": "model.M"}
    (served.folder / "changed" / "model-settings.json").write_text(json.dumps(settings))
    assert httpx.post(f"{served.url}/v2/repository/models/changed/load").status_code == 400
    assert not ran(served, "changed")


def test_the_list_is_reported(served: Running) -> None:
    reported = httpx.get(f"{served.url}/v2/runtimes").json()
    assert reported == {"mode": "PRODUCTION", "allowed_model_implementations": sorted(LISTED)}
    assert "runtime_security" in httpx.get(f"{served.url}/v2").json()["extensions"]
    response = call_report(served)
    assert (response.mode, [*response.allowed_model_implementations.items]) == ("PRODUCTION", sorted(LISTED))


def call_report(served: Running):
    reply = GetMessageClass(POOL.FindMessageTypeByName("inference.RuntimeSecurityResponse"))
    with grpc.insecure_channel(served.grpc) as channel:
        call = channel.unary_unary(
            "/inference.GRPCInferenceService/RuntimeSecurity", response_deserializer=reply.FromString
        )
        return call(b"", timeout=10)


def test_without_a_list_every_class_is_allowed(tmp_path: Path) -> None:
    write(tmp_path / "models", "class", ATTACKS["class"])
    served = Running(tmp_path / "models")
    try:
        assert httpx.get(f"{served.url}/v2/models/class/ready").status_code == 200
        assert ran(served, "class")
        assert httpx.get(f"{served.url}/v2/runtimes").json() == {"mode": "DEVELOPMENT"}
        response = call_report(served)
        assert (response.mode, response.HasField("allowed_model_implementations")) == ("DEVELOPMENT", False)
    finally:
        served.stop()


@pytest.mark.parametrize("frontends", [1, 2])
def test_an_empty_list_loads_nothing(tmp_path: Path, frontends: int) -> None:
    write(tmp_path / "models", "listed", HARMLESS["listed"])
    write(tmp_path / "models", "class", ATTACKS["class"])
    listed = {"trusted_runtimes": list_runtimes(tmp_path, [])}
    (tmp_path / "models" / "settings.json").write_text(json.dumps(listed))
    served = Running(tmp_path / "models", INFERSTREAM_FRONTENDS=str(frontends))
    try:
        for name in ("listed", "class"):
            assert httpx.get(f"{served.url}/v2/models/{name}/ready").status_code != 200
        assert not ran(served, "class")
        empty = {"mode": "PRODUCTION", "allowed_model_implementations": []}
        assert httpx.get(f"{served.url}/v2/runtimes").json() == empty
        assert call_report(served).HasField("allowed_model_implementations")
        assert "trusted runtimes: none, so no model can load" in served.text()
    finally:
        served.stop()


def test_front_ends_check_models(tmp_path: Path) -> None:
    for name in ("listed", "class", "trust", "library-in-extra", "triton"):
        write(tmp_path / "models", name, (ATTACKS | HARMLESS)[name])
    variables = {"INFERSTREAM_TRUSTED_RUNTIMES_FILE": list_runtimes(tmp_path), "INFERSTREAM_FRONTENDS": "2"}
    served = Running(tmp_path / "models", **variables)
    try:
        assert httpx.get(f"{served.url}/v2/models/listed/ready").status_code == 200
        for name in ("class", "trust", "library-in-extra", "triton"):
            assert httpx.get(f"{served.url}/v2/models/{name}/ready").status_code != 200
            assert ATTACKS[name].reason in reasons(served, name)
            assert not ran(served, name)
    finally:
        served.stop()


def refused(folder: Path, *flags: str, **environment: str) -> str:
    """The only line that a server prints which does not start."""
    target = environment.pop("target", None)
    served = Running(folder, *flags, wait=False, target=target, **environment)
    assert served.process.wait(60) == 1, served.text()
    return served.text()


BROKEN = {
    "not JSON": "{broken",
    "an object": "{}",
    "a string": '"mlserver_sklearn.SKLearnModel"',
    "null": "null",
    "nested": "[" * 100_000,
    "a number": "[1]",
    "spaces": '[" mlserver_sklearn.SKLearnModel "]',
    "a module": '["mlserver_sklearn"]',
    "a function": '["os.system"]',
    "an app": '["app:app/double"]',
    "private": '["_a.B"]',
    "pattern": '["*"]',
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_broken_list_ends_the_start(tmp_path: Path, text: str) -> None:
    write(tmp_path / "models", "listed", HARMLESS["listed"])
    path = list_runtimes(tmp_path, text)
    line = refused(tmp_path / "models", INFERSTREAM_TRUSTED_RUNTIMES_FILE=path)
    assert line.startswith(f"error: {path}: ")
    assert line.count("\n") == 1


@pytest.mark.parametrize("kind", ["missing", "folder", "empty name"])
def test_a_missing_list_ends_the_start(tmp_path: Path, kind: str) -> None:
    (tmp_path / "models").mkdir()
    path = {"missing": str(tmp_path / "none"), "folder": str(tmp_path), "empty name": ""}[kind]
    assert "there is no such file" in refused(tmp_path / "models", INFERSTREAM_TRUSTED_RUNTIMES_FILE=path)


FORBIDDEN = {
    "middleware": ["model.M"],
    "model_repository_implementation": "model.M",
    "logging_settings": {"version": 1, "handlers": {"a": {"()": "os.mkdir", "path": "made"}}},
    "trusted_runtimes": "own.json",
    "trusted_runtimes_file": "own.json",
    "INFERSTREAM_TRUSTED_RUNTIMES_FILE": "own.json",
    "MLSERVER_TRUSTED_RUNTIMES": None,
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_settings_next_to_the_models_cannot_select_code(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "models"
    write(folder, "class", ATTACKS["class"])
    (tmp_path / "own.json").write_text('["model.M"]')
    (folder / "settings.json").write_text(json.dumps({name: FORBIDDEN[name]}))
    (folder / "model.py").write_text(code("settings"))
    variables = {"INFERSTREAM_TRUSTED_RUNTIMES_FILE": list_runtimes(tmp_path)}
    assert f"{name} in the settings file of the models can select code" in refused(folder, **variables)
    assert not (tmp_path / "made").exists()
    assert (tmp_path / "models.log").read_text() == ""


def test_variables_in_a_file_next_to_the_models_cannot_select_code(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    write(folder, "class", ATTACKS["class"])
    (folder / ".env").write_text("INFERSTREAM_TRUSTED_RUNTIMES_FILE=own.json\n")
    variables = {"INFERSTREAM_TRUSTED_RUNTIMES_FILE": list_runtimes(tmp_path)}
    line = refused(folder / "class", target=str(folder), **variables)
    assert ".env in the folder of the models can select code" in line


def test_working_folder_with_models_holds_no_modules(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    write(folder, "one", HARMLESS["listed"])
    (folder / "joblib.py").write_text(code("one"))
    variables = {"INFERSTREAM_TRUSTED_RUNTIMES_FILE": list_runtimes(tmp_path)}
    served = Running(folder / "one", target=str(folder), fresh=True, **variables)  # python -m, in `folder`
    try:
        assert httpx.get(f"{served.url}/v2/models/one/ready").status_code == 200, served.text()
        assert not ran(served, "one")
    finally:
        served.stop()


@pytest.mark.parametrize(
    ("cors", "name"),
    [
        ({"allow_origins": ["https://a.example", "*"]}, "allow_origins"),
        ({"allow_origin_regex": ".*"}, "allow_origin_regex"),
    ],
)
def test_open_cors_ends_the_start(tmp_path: Path, cors: dict[str, object], name: str) -> None:
    (tmp_path / "models").mkdir()
    variables = {"INFERSTREAM_TRUSTED_RUNTIMES_FILE": list_runtimes(tmp_path)}
    line = refused(tmp_path / "models", INFERSTREAM_CORS_SETTINGS=json.dumps(cors), **variables)
    assert f'cors_settings: "{name}" opens the server to any page' in line


@pytest.mark.parametrize("place", ["variable", "settings"])
def test_an_app_in_the_folder_does_not_run(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "app.py").write_text(code("app", APP))
    path = list_runtimes(tmp_path)
    variables = {"INFERSTREAM_TRUSTED_RUNTIMES_FILE": path} if place == "variable" else {}
    if place == "settings":
        (folder / "settings.json").write_text(json.dumps({"trusted_runtimes": path}))
    assert "name the file if it is yours" in refused(folder, **variables)
    assert (tmp_path / "models.log").read_text() == ""


def test_settings_of_the_environment_name_only_listed_classes(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "model.py").write_text(code("environment", CLASS))
    variables = {"INFERSTREAM_TRUSTED_RUNTIMES_FILE": list_runtimes(tmp_path)}
    served = Running(folder, MLSERVER_MODEL_IMPLEMENTATION="model.M", MLSERVER_MODEL_NAME="m", **variables)
    try:
        assert httpx.get(f"{served.url}/v2/models/m/ready").status_code != 200
        assert not ran(served, "environment")
    finally:
        served.stop()


@pytest.mark.parametrize("workers", [0, 1])
def test_code_that_the_operator_names_runs(tmp_path: Path, workers: int) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "app.py").write_text(code("app", APP + "import beside"))
    (folder / "beside.py").write_text(
        code("beside", "async def passing(call, call_next):\n    return await call_next(call)\n")
    )
    variables = {"INFERSTREAM_TRUSTED_RUNTIMES_FILE": list_runtimes(tmp_path)}
    variables |= {
        "INFERSTREAM_MIDDLEWARE": '["beside.passing"]',
        "INFERSTREAM_PARALLEL_WORKERS": str(workers),
    }
    served = Running(folder, target=str(folder / "app.py"), **variables)
    try:
        assert httpx.post(f"{served.url}/v2/models/double/generate", json={"n": 3}).json()["output"] == 6
        assert ran(served, "beside")
    finally:
        served.stop()


def test_code_next_to_an_artefact_does_not_run(tmp_path: Path) -> None:
    folder = tmp_path / "models" / "one"
    write(folder.parent, "one", Attack({"joblib.py": "", "sklearn.py": ""}, "", None, artefact=True))
    variables = {"INFERSTREAM_TRUSTED_RUNTIMES_FILE": list_runtimes(tmp_path)}
    served = Running(folder, target=str(folder / "model.joblib"), **variables)
    try:
        assert httpx.get(f"{served.url}/v2/models/model/ready").status_code == 200, served.text()
        assert not ran(served, "one")
    finally:
        served.stop()
