"""Which models a change of files touches."""

from pathlib import Path

from inferstream.repository.touched import touched_by


def test_a_file_belongs_to_the_model_of_its_folder_and_code_outside_to_all(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    sources = {(name, str(root / name / "model-settings.json")) for name in "ab"} | {("memory", "")}
    assert touched_by([root / "a" / "weights.bin"], sources) == ["a"]
    assert touched_by([root], sources) == ["a", "b"]
    assert touched_by([root / "shared.py"], sources) == ["a", "b", "memory"]
    assert touched_by([root / "notes.txt"], sources) == []
