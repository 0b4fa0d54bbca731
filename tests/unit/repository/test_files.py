"""What `server start model.py` serves."""

from pathlib import Path

import pytest

from inferstream.errors import InvalidSettings
from inferstream.repository.apps import AppRepository
from inferstream.repository.files import FileRepository, repository_of_file

CLASSES = """
from inferstream import MLModel

class Base(MLModel): ...

class _Hidden(MLModel): ...

class One(Base):
    async def predict(self, payload): ...

class Two(Base):
    async def predict(self, payload): ...
"""


APP = "from inferstream import App\n{name} = App()\n@{name}.model\ndef f(x: int) -> int:\n    return x\n"


def write(folder: Path, name: str, code: str) -> str:
    (folder / f"{name}.py").write_text(code)
    return f"{name}:app"


def test_artefact_model_has_the_name_of_its_file(tmp_path: Path) -> None:
    for name in ("iris.onnx", "other.joblib"):
        (tmp_path / name).touch()
    for name, called in ((None, "iris"), ("flowers", "flowers")):
        [settings] = repository_of_file("iris.onnx", tmp_path, name).models()
        assert (settings.name, settings.recognised) == (called, "iris.onnx")
        assert settings.implementation_ == "inferstream.plugins.frameworks.onnx.OnnxModel"
        assert settings.parameters is not None
        assert settings.parameters.uri == str(tmp_path / "iris.onnx")


def test_classes_of_a_file_are_models_except_base_classes(tmp_path: Path) -> None:
    repository = repository_of_file(write(tmp_path, "some_classes", CLASSES), tmp_path)
    assert isinstance(repository, FileRepository)
    assert [(each.name, each.implementation_) for each in repository.models()] == [
        ("One", "some_classes.One"),
        ("Two", "some_classes.Two"),
    ]
    assert all(each.implementation.__name__ == each.name for each in repository.models())


@pytest.mark.parametrize("name", ["app", "service"])
def test_app_is_found_under_any_name(tmp_path: Path, name: str) -> None:
    repository = repository_of_file(write(tmp_path, f"with_{name}", APP.format(name=name)), tmp_path)
    assert isinstance(repository, AppRepository)
    assert [each.name for each in repository.models()] == ["f"]


@pytest.mark.parametrize(
    ("module", "code", "reason"),
    [
        ("plain_code", "def f(x): return x", "`@app.model` above each"),
        ("two_apps", "from inferstream import App\na = App()\nb = App()", "several apps: a, b"),
        ("broken_code", "x = (", "broken_code.py, line 1: SyntaxError"),
        ("raising_code", "\nraise RuntimeError('no database')", "line 2: RuntimeError: no database"),
    ],
)
def test_unservable_file_is_one_line_with_the_next_step(
    tmp_path: Path, module: str, code: str, reason: str
) -> None:
    with pytest.raises(InvalidSettings) as refused:
        repository_of_file(write(tmp_path, module, code), tmp_path)
    assert reason in refused.value.message
    assert "\n" not in refused.value.message
    assert str(tmp_path) not in refused.value.message


async def test_changed_code_is_reimported_and_broken_code_is_reported(tmp_path: Path) -> None:
    repository = repository_of_file(write(tmp_path, "changing", CLASSES), tmp_path)
    write(tmp_path, "changing", "x = (  # longer than before" + " " * len(CLASSES))
    assert await repository.list() == []
    assert [each.name for each in await repository.broken()] == ["One", "Two"]
    with pytest.raises(InvalidSettings, match="line 1: SyntaxError"):
        await repository.find("One")
    write(tmp_path, "changing", CLASSES.replace("Two", "Three") + "# and more\n")
    assert [each.name for each in await repository.list()] == ["One", "Three"]
