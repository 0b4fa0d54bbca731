"""The models that a folder or an app would load, and their problems."""

from pathlib import Path

from inferstream.repository.inspection import inspect_app, inspect_folder

APP = "from inferstream import App\napp = App()\n@app.model\ndef add(a: int) -> int:\n    return a\n"


def write(folder: Path, settings: str = '{"implementation": "a.B"}') -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model-settings.json").write_text(settings)


def test_app_functions_are_listed(tmp_path: Path) -> None:
    (tmp_path / "listed_app.py").write_text(APP)
    inspection = inspect_app("listed_app:app", tmp_path)
    assert inspection.clean
    assert [(found.name, found.source, found.workers) for found in inspection.models] == [
        ("add", "listed_app:app", 0)
    ]


def test_failing_code_is_a_problem_of_the_app(tmp_path: Path) -> None:
    (tmp_path / "failing_app.py").write_text("1 / 0\n")
    inspection = inspect_app("failing_app:app", tmp_path)
    assert (inspection.clean, inspection.models) == (False, [])
    assert inspection.problems == [
        'app "failing_app:app": failing_app.py, line 1: ZeroDivisionError: division by zero'
    ]


def test_duplicate_names_are_reported_for_both_models(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(tmp_path / name, '{"implementation": "json.JSONDecoder", "name": "m"}')
    first, second = inspect_folder(tmp_path).models
    assert first.problems == ["name and version are also those of two/model-settings.json"]
    assert second.problems == ["name and version are also those of one/model-settings.json"]


def test_model_environment_needs_a_worker_and_its_python(tmp_path: Path) -> None:
    write(tmp_path / "m", '{"implementation": "only.There", "parameters": {"environment_path": "env"}}')
    (model,) = inspect_folder(tmp_path).models
    assert model.workers == 1
    assert model.problems == ['environment_path "env" has no bin/python']


def test_custom_repository_is_not_inspected(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"model_repository_implementation": "mine.Repository"}')
    assert inspect_folder(tmp_path).problems == [
        "settings.json: models come from mine.Repository, which is not asked here"
    ]
