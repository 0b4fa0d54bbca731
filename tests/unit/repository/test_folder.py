"""Which settings files of a folder are models."""

from pathlib import Path

from inferstream.repository.folder import settings_files


def test_what_is_installed_in_an_environment_beside_the_models_is_no_model(tmp_path: Path) -> None:
    installed = "env/lib/python3.11/site-packages/inferstream/cli/templates/predict"
    for folder in ("a", "env-model", installed, ".venv/b", "__pycache__/c"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "model-settings.json").write_text("{}")
    assert [path.parent.name for path in settings_files(tmp_path)] == ["a", "env-model"]
