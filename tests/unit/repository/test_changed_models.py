"""Which models a change of files touches."""

from pathlib import Path

from inferstream.repository.changed_models import find_affected_models


def test_changed_file_concerns_its_model_and_shared_code_all_models(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    sources = {(name, str(root / name / "model-settings.json")) for name in "ab"} | {("memory", "")}
    assert find_affected_models([root / "a" / "weights.bin"], sources) == ["a"]
    assert find_affected_models([root], sources) == ["a", "b"]
    assert find_affected_models([root / "shared.py"], sources) == ["a", "b", "memory"]
    assert find_affected_models([root / "notes.txt"], sources) == []
