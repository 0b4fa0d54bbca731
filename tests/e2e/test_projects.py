"""A project whose root is a model folder: its own program and its tests stay ordinary Python."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

MODEL = """
import pickle
from pathlib import Path

import helper
from inferstream import MLModel, StringCodec


class Model(MLModel):
    async def load(self):
        self.box = pickle.loads((Path(__file__).parent / "box.pkl").read_bytes())
        return True

    async def predict(self, payload):
        from tests import things

        is_own = isinstance(self.box, helper.Box) and things.WORD == "a"
        return self.answer(is_own)

    def answer(self, is_own):
        from inferstream import InferenceResponse

        output = StringCodec.encode_output("own", [str(is_own)])
        return InferenceResponse(model_name=self.name, outputs=[output])
"""

TESTS = """
import asyncio
import importlib
import os
import pickle
import sys

import pytest

import helper
from inferstream import App, testing
from inferstream.settings import ModelSettings
from tests import things

SERVED = os.environ["SERVED"].split()

app = App()


class Thing:
    pass


@app.model
def double(x: int) -> int:
    from tests import things as found

    assert found is things
    return 2 * x


async def call(served, name, **arguments):
    async with testing.run(served) as running:
        return await running.predict(name, **arguments)


@pytest.mark.parametrize("turn", range(2))
def test_folder_is_a_model_and_a_program(turn, monkeypatch):
    if "app" in SERVED:
        assert asyncio.run(call(app, "double", x=2)) == 4
    if "settings" in SERVED:
        settings = ModelSettings.parse_file(os.path.abspath("model-settings.json"))
        assert asyncio.run(call(settings, "m", x=[1.0])) in ("True", ["True"])
    if "folder" in SERVED:
        assert asyncio.run(call(".", "m", x=[1.0])) in ("True", ["True"])
    monkeypatch.setattr("tests.things.WORD", "b")
    assert things.WORD == "b"
    assert sys.modules["tests"].things is things
    assert importlib.import_module("tests.things") is things
    assert importlib.import_module("helper") is helper
    import helper as again

    assert again is helper
    for value in (helper.Box(), Thing()):
        assert type(pickle.loads(pickle.dumps(value))) is type(value)
        assert type(pickle._loads(pickle._dumps(value))) is type(value)
"""

FILES = {
    "model.py": MODEL,
    "helper.py": "class Box:\n    pass\n",
    "model-settings.json": '{"name": "m", "implementation": "model.Model"}',
    "tests/__init__.py": "",
    "tests/things.py": 'WORD = "a"\n',
    "tests/test_project.py": TESTS,
    "train.py": "import pickle, helper\nopen('box.pkl', 'wb').write(pickle.dumps(helper.Box()))\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("mode", ["prepend", "importlib"])
@pytest.mark.parametrize("served", ["app", "settings", "folder", "app settings", "folder app"])
def test_project_tests_import_modules_once(
    project: Path, mode: str, served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVED", served)
    run(project, "train.py")
    run(project, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode", mode, "tests")


def run(project: Path, *arguments: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["", os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, *arguments]
    ran = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr
