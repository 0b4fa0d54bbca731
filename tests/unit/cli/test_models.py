"""`server models` finds what the server would find, and runs no model code unless asked."""

import json
import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from inferstream.cli.main import app

GOOD = "from inferstream import MLModel\n\nclass Good(MLModel):\n    pass\n"


def model(root: Path, at: str, settings: dict | str, **files: str) -> Path:
    folder = root / at
    folder.mkdir(parents=True, exist_ok=True)
    text = settings if isinstance(settings, str) else json.dumps(settings)
    (folder / "model-settings.json").write_text(text)
    for name, content in files.items():
        (folder / f"{name}.py").write_text(content)
    return folder


def listed(root: Path, *flags: str) -> tuple[int, dict]:
    ran = CliRunner().invoke(app, ["models", str(root), "--json", *flags])
    return ran.exit_code, json.loads(ran.stdout)


def problems(root: Path, *flags: str) -> dict[str, list[str]]:
    return {found["source"]: found["problems"] for found in listed(root, *flags)[1]["models"]}


def test_valid_folder_is_listed_with_exit_code_0(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"parallel_workers": 2}')
    model(tmp_path, "a", {"implementation": "good.Good", "parameters": {"version": "3"}}, good=GOOD)
    model(tmp_path, "b", {"implementation": "good.Good", "parallel_workers": 0}, good=GOOD)
    code, found = listed(tmp_path)
    assert (code, found["ok"]) == (0, True)
    assert found["models"][0] == {
        "source": "a/model-settings.json",
        "name": "a",
        "version": "3",
        "implementation": "good.Good",
        "workers": 2,
        "problems": [],
    }
    assert found["models"][1]["workers"] == 0
    shown = CliRunner().invoke(app, ["models", str(tmp_path)])
    assert shown.exit_code == 0
    assert "a/model-settings.json" in shown.stdout


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ('{"implementation": }', "line 1 column 20"),
        ("[]", "must hold a JSON object"),
        ({}, 'field "implementation" is required'),
        ({"implementation": "good.Good", "implementaton": "x"}, 'did you mean "implementation"?'),
        ({"implementation": "good.Good", "max_queue": -1}, 'field "max_queue"'),
        ({"implementation": "good.Bad"}, "module good has no class Bad"),
        ({"implementation": "absent.Good"}, "there is no module absent"),
        ({"implementation": "broken.Good"}, "broken.py line 1 is not Python"),
        ({"implementation": "Good"}, "write module.Class, or the name of a runtime"),
        ({"implementation": "good.Good", "name": "../x"}, "not a usable model name"),
        ({"implementation": "good.Good", "parameters": {"environment_tarball": "e.tar.gz"}}, "is not there"),
        ({"implementation": "good.Good", "parameters": {"environment_tarball": "good.py"}}, "not a tar"),
        ({"implementation": "good.Good", "parameters": {"environment_path": "env"}}, "has no bin/python"),
    ],
)
def test_every_error_is_named_with_exit_code_1(tmp_path: Path, settings: dict | str, problem: str) -> None:
    model(tmp_path, "m", settings, good=GOOD, broken="class Good(:\n")
    code, found = listed(tmp_path)
    assert code == 1
    [only] = found["models"][0]["problems"]
    assert problem in only
    assert str(tmp_path) not in only
    shown = CliRunner().invoke(app, ["models", str(tmp_path)])
    assert shown.exit_code == 1
    assert f"m/model-settings.json: {only}" in shown.stdout


def test_duplicate_models_are_both_reported(tmp_path: Path) -> None:
    for at in ("a", "b"):
        model(tmp_path, at, {"implementation": "good.Good", "name": "same"}, good=GOOD)
    found = problems(tmp_path)
    assert "b/model-settings.json" in found["a/model-settings.json"][0]
    assert "a/model-settings.json" in found["b/model-settings.json"][0]


def test_server_settings_are_checked(tmp_path: Path) -> None:
    model(tmp_path, "m", {"implementation": "good.Good"}, good=GOOD)
    for text, problem in (
        ("{", "line 1"),
        ('{"http_prt": 1}', "http_port"),
        ('{"http_port": -1}', "http_port"),
    ):
        (tmp_path / "settings.json").write_text(text)
        code, found = listed(tmp_path)
        assert code == 1
        assert problem in found["problems"][0]


def test_code_runs_only_on_request(tmp_path: Path) -> None:
    witness = tmp_path / "ran"
    code = f"open({str(witness)!r}, 'w').close()\nprint('noise')\nraise RuntimeError('no licence')\nclass Good: pass\n"
    model(tmp_path / "models", "m", {"implementation": "good.Good"}, good=code)
    assert listed(tmp_path / "models")[0] == 0
    assert not witness.exists()
    assert problems(tmp_path / "models", "--import") == {
        "m/model-settings.json": ['implementation "good.Good": RuntimeError: no licence']
    }
    assert witness.exists()


def test_import_finds_invalid_models(tmp_path: Path) -> None:
    model(tmp_path, "m", {"implementation": "good.Good"}, good="class Good: pass\n")
    assert problems(tmp_path, "--import")["m/model-settings.json"] == [
        'implementation "good.Good" is not a subclass of MLModel; hint: write `from inferstream import MLModel` '
        "and `class Good(MLModel)`"
    ]


def test_model_with_its_own_environment_may_name_its_packages(tmp_path: Path) -> None:
    folder = model(
        tmp_path, "m", {"implementation": "absent.Model", "parameters": {"environment_tarball": "e.tar.gz"}}
    )
    with tarfile.open(folder / "e.tar.gz", "w:gz"):
        pass
    code, found = listed(tmp_path)
    assert code == 0
    assert found["models"][0]["workers"] == 1


def test_model_described_by_variables_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLSERVER_MODEL_IMPLEMENTATION", "json.JSONDecoder")
    monkeypatch.setenv("MLSERVER_MODEL_NAME", "single")
    code, found = listed(tmp_path)
    assert (code, found["models"][0]["source"]) == (0, "environment")


def test_missing_folder_is_a_one_line_error(tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["models", str(tmp_path / "none")])
    assert ran.exit_code == 1
    assert "hint: name a folder, a file such as app.py or model.joblib, or module:app; " in ran.stderr


@pytest.mark.parametrize("variable", ["INFERSTREAM_MODELS_DIR", "MLSERVER_MODELS_DIR"])
def test_folder_of_variable_is_read_without_argument(tmp_path: Path, variable: str) -> None:
    model(tmp_path, "good", {"implementation": "good.Good"}, good=GOOD)
    found = CliRunner(env={variable: str(tmp_path)}).invoke(app, ["models", "--json"])
    assert [each["name"] for each in json.loads(found.stdout)["models"]] == ["good"]
