"""The Serve application that is built, against a Ray that only keeps what it is told."""

import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from inferstream import Settings
from inferstream.errors import InvalidSettings
from inferstream.plugins.ray import application
from inferstream.plugins.ray.replica import Replica

APP = "from inferstream import App\napp = App()\n@app.model\ndef double(number: int) -> int:\n    return 2 * number\n"


class Deployment(SimpleNamespace):
    options: dict[str, Any]

    def bind(self, *arguments: Any) -> "Deployment":
        self.arguments = arguments
        return self


def deployment(**options: Any) -> Callable[[type], Deployment]:
    return lambda replica: Deployment(options=options, replica=replica)


@pytest.fixture(autouse=True)
def ray(monkeypatch, tmp_path: Path) -> None:
    serve = SimpleNamespace(deployment=deployment, ingress=lambda: lambda replica: replica)
    module = ModuleType("ray")
    module.serve, module.cloudpickle = serve, pickle
    monkeypatch.setitem(sys.modules, "ray", module)
    monkeypatch.chdir(tmp_path)


def model(folder: Path, name: str, **settings: Any) -> None:
    from json import dumps

    (folder / name).mkdir(parents=True)
    (folder / name / "model.py").write_text("from inferstream import MLModel\nclass Own(MLModel): ...\n")
    text = dumps({"name": name, "implementation": "model.Own", **settings})
    (folder / name / "model-settings.json").write_text(text)


def test_folder_path_is_absolute(tmp_path: Path) -> None:
    model(tmp_path / "models", "a")
    made = application("models", settings={"debug": True})
    assert made.arguments == (os.path.realpath(tmp_path / "models"), {"debug": True})
    assert made.replica is Replica


@pytest.mark.parametrize("place", ["words:app", "words.py", "words.py:app"])
def test_app_path_is_absolute(tmp_path: Path, place: str) -> None:
    (tmp_path / "words.py").write_text(APP)
    assert application(place).arguments == (f"{os.path.realpath(tmp_path / 'words.py')}:app", {})


def test_defaults_follow_models(tmp_path: Path) -> None:
    model(tmp_path, "a", max_concurrency=4, max_queue=10, parallel_workers=2)
    model(tmp_path, "b", max_active=8, max_queue=0, parallel_workers=2, devices=["0", "1"])
    made = application(".", settings={"shutdown_grace": 7.0, "shutdown_delay": 1.0})
    assert made.options == {
        "name": "inferstream",
        "max_ongoing_requests": 64 + (4 + 10 + 1) + (8 + 0 + 1),
        "graceful_shutdown_timeout_s": 13.0,
        "graceful_shutdown_wait_loop_s": 0.25,
        "ray_actor_options": {"num_cpus": 3, "num_gpus": 2},
    }


def test_explicit_serve_options_override(tmp_path: Path) -> None:
    made = application(".", num_replicas=2, ray_actor_options={"num_cpus": 0.5}, name="mine")
    assert (made.options["num_replicas"], made.options["name"]) == (2, "mine")
    assert made.options["ray_actor_options"] == {"num_cpus": 0.5}


def test_additional_front_ends_are_refused() -> None:
    with pytest.raises(InvalidSettings) as raised:
        application(".", settings={"frontends": 2})
    assert (
        raised.value.message
        == "frontends is 2, and a replica of Ray Serve has one; raise num_replicas instead"
    )


def test_uncopyable_model_is_refused_with_solution() -> None:
    from inferstream import App

    app = App()

    @app.model
    def local(number: int) -> int:
        return number

    with pytest.raises(InvalidSettings, match=r'give a folder or "module:app"$'):
        application(app)


def test_invalid_settings_are_refused() -> None:
    with pytest.raises(InvalidSettings, match="grace"):
        application(".", settings={"grace": 2})


def test_complete_settings_are_served(tmp_path: Path) -> None:
    settings = Settings(model_repository_root=str(tmp_path))
    assert application(settings).arguments == (settings, {})


def test_missing_ray_error_names_extra(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r'hint: pip install "ray\[serve\]'):
        application(".")
