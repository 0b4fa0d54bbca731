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


def test_a_good_folder_is_listed_and_exits_0(tmp_path: Path) -> None:
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
        ({"implementation": "Good"}, "not of the form module.Class"),
        ({"implementation": "good.Good", "name": "../x"}, "not a usable model name"),
        ({"implementation": "good.Good", "parameters": {"environment_tarball": "e.tar.gz"}}, "is not there"),
        ({"implementation": "good.Good", "parameters": {"environment_tarball": "good.py"}}, "not a tar"),
        ({"implementation": "good.Good", "parameters": {"environment_path": "env"}}, "has no bin/python"),
    ],
)
def test_each_fault_is_named_and_exits_1(tmp_path: Path, settings: dict | str, problem: str) -> None:
    model(tmp_path, "m", settings, good=GOOD, broken="class Good(:\n")
    code, found = listed(tmp_path)
    assert code == 1
    [only] = found["models"][0]["problems"]
    assert problem in only
    assert str(tmp_path) not in only
    shown = CliRunner().invoke(app, ["models", str(tmp_path)])
    assert shown.exit_code == 1
    assert f"m/model-settings.json: {only}" in shown.stdout


def test_twins_are_both_blamed(tmp_path: Path) -> None:
    for at in ("a", "b"):
        model(tmp_path, at, {"implementation": "good.Good", "name": "same"}, good=GOOD)
    found = problems(tmp_path)
    assert "b/model-settings.json" in found["a/model-settings.json"][0]
    assert "a/model-settings.json" in found["b/model-settings.json"][0]


def test_the_server_s_own_settings_are_checked(tmp_path: Path) -> None:
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


def test_code_runs_only_when_asked(tmp_path: Path) -> None:
    witness = tmp_path / "ran"
    code = f"open({str(witness)!r}, 'w').close()\nprint('noise')\nraise RuntimeError('no licence')\nclass Good: pass\n"
    model(tmp_path / "models", "m", {"implementation": "good.Good"}, good=code)
    assert listed(tmp_path / "models")[0] == 0
    assert not witness.exists()
    assert problems(tmp_path / "models", "--import") == {
        "m/model-settings.json": ['implementation "good.Good": RuntimeError: no licence']
    }
    assert witness.exists()


def test_importing_sees_what_is_no_model(tmp_path: Path) -> None:
    model(tmp_path, "m", {"implementation": "good.Good"}, good="class Good: pass\n")
    assert problems(tmp_path, "--import")["m/model-settings.json"] == [
        'implementation "good.Good" is not a subclass of MLModel'
    ]


def test_a_model_with_its_own_environment_may_name_what_only_that_has(tmp_path: Path) -> None:
    folder = model(
        tmp_path, "m", {"implementation": "absent.Model", "parameters": {"environment_tarball": "e.tar.gz"}}
    )
    with tarfile.open(folder / "e.tar.gz", "w:gz"):
        pass
    code, found = listed(tmp_path)
    assert code == 0
    assert found["models"][0]["workers"] == 1


def test_a_model_described_in_variables_alone_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLSERVER_MODEL_IMPLEMENTATION", "json.JSONDecoder")
    monkeypatch.setenv("MLSERVER_MODEL_NAME", "single")
    code, found = listed(tmp_path)
    assert (code, found["models"][0]["source"]) == (0, "environment")


def test_no_folder_is_one_line(tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["models", str(tmp_path / "none")])
    assert ran.exit_code == 1
    assert ran.stderr.strip().endswith("; an app is app.py or module:app")
