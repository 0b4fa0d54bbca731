"""What a command is given to serve."""

from pathlib import Path

import pytest

from inferstream.errors import InvalidSettings
from inferstream.repository.target import resolve_target

CLASSES = """
from inferstream import MLModel

class Base(MLModel): ...

class _Hidden(MLModel): ...

class One(Base):
    async def predict(self, payload): ...

class Two(Base):
    async def predict(self, payload): ...
"""


def write(folder: Path, name: str, code: str) -> str:
    (folder / f"{name}.py").write_text(code)
    return f"{name}:app"


def test_file_with_settings_stands_for_its_folder(tmp_path: Path) -> None:
    write(tmp_path, "model", CLASSES)
    assert resolve_target(str(tmp_path / "model.py")) == (tmp_path, "model:app")
    (tmp_path / "model-settings.json").write_text('{"implementation": "model.One"}')
    assert resolve_target(str(tmp_path / "model.py")) == (tmp_path, None)
    assert resolve_target(f"{tmp_path / 'model.py'}:app") == (tmp_path, "model:app")


def test_single_artefact_is_served_unless_it_has_settings(tmp_path: Path) -> None:
    (tmp_path / "iris.onnx").touch()
    assert resolve_target(str(tmp_path / "iris.onnx")) == (tmp_path, "iris.onnx")
    (tmp_path / "model-settings.json").touch()
    assert resolve_target(str(tmp_path / "iris.onnx")) == (tmp_path, None)
    (tmp_path / "iris.bin").touch()
    with pytest.raises(
        InvalidSettings, match="no runtime reads files of this kind; hint: name a folder, an app"
    ):
        resolve_target(str(tmp_path / "iris.bin"))


@pytest.mark.parametrize(
    ("target", "folder", "code"),
    [("package.module:app", ".", "package.module:app"), ("src/served.py:mine", "src", "served:mine")],
)
def test_code_is_named_by_module_or_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, folder: str, code: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "served.py").touch()
    assert resolve_target(target) == (tmp_path / folder, code)


def test_folder_with_an_app_and_no_model_stands_for_the_app(tmp_path: Path) -> None:
    (tmp_path / "app.py").touch()
    assert resolve_target(str(tmp_path)) == (tmp_path, "app:app")
    (tmp_path / "model-settings.json").touch()
    assert resolve_target(str(tmp_path)) == (tmp_path, None)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("absent.py", "there is no file absent.py"),
        ("with-dash.py", "Python cannot import a file of this name"),
        ("served.py:1st", "is not of the form served.py:app"),
        ("absent", "there is no file or folder absent"),
        ("absent.pkl", "there is no file or folder absent.pkl"),
        ("src/module:app", "a module has no slash; write src/module.py:app"),
        ("module:1st", "is not of the form module:app"),
    ],
)
def test_invalid_target_error_shows_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "with-dash.py").touch()
    (tmp_path / "served.py").touch()
    with pytest.raises(InvalidSettings, match=message):
        resolve_target(target)


def test_folder_lists_model_settings_as_written(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "model-settings.json").write_text('{"implementation": "m.M", "unknown": 1}')
    (tmp_path / "b").mkdir()
    settings = '{"implementation": "mlserver_sklearn.SKLearnModel"}'
    (tmp_path / "b" / "model-settings.json").write_text(settings)
    models = resolve_target(str(tmp_path)).models()
    assert models["a/model-settings.json"] == {"implementation": "m.M", "unknown": 1}
    assert models["b/model-settings.json"]["implementation"].endswith("sklearn:SKLearnModel")
    assert len(models) == 2
    (tmp_path / "b" / "model-settings.json").write_text("{")
    with pytest.raises(InvalidSettings):
        resolve_target(str(tmp_path)).models()


def test_artefact_provides_settings_unless_there_are_others(tmp_path: Path) -> None:
    assert resolve_target(str(tmp_path)).models() == {}
    (tmp_path / "one.onnx").touch()
    [(path, fields)] = resolve_target(str(tmp_path)).models().items()
    assert (path, fields["parameters"]) == ("", {"uri": str(tmp_path / "one.onnx")})
    (tmp_path / "two.onnx").touch()
    assert resolve_target(str(tmp_path)).models() == {}
    (tmp_path / "two.onnx").unlink()
    (tmp_path / "app.py").touch()
    assert resolve_target(str(tmp_path)).models() == {}


def test_app_is_imported_by_its_package_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = "from inferstream import App\n\nmine = App()\n\n@mine.model\ndef add() -> None: ...\n"
    (tmp_path / "served_alone.py").write_text(code)
    app, path = resolve_target("served_alone.py:mine").load_app()
    assert ([function.name for function in app], path) == (["add"], "served_alone:mine")
    with pytest.raises(InvalidSettings, match="nothing"):
        resolve_target("served_alone.py:nothing").load_app()
