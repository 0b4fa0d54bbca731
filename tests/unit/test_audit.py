"""The audit: what it pins, which licences it refuses, and that it fails where it could not run."""

from pathlib import Path

import pytest

from scripts import audit


def test_every_pin_has_hashes_and_no_index_is_named() -> None:
    assert audit.versions(audit.HASHED) == audit.versions(audit.PINNED)
    text = audit.HASHED.read_text()
    assert "://" not in text
    assert all("--hash=sha256:" in each for each in text.split("==")[1:])


@pytest.mark.parametrize(
    ("licenses", "refused"),
    [
        ([{"license": {"id": "MIT"}}], []),
        ([{"expression": "MPL-2.0 AND (Apache-2.0 OR MIT)"}], []),
        ([{"license": {"name": "License :: OSI Approved :: BSD License"}}], []),
        ([{"expression": "MIT AND GPL-3.0-only"}], ["GPL-3.0-only"]),
        ([{"license": {"name": "Proprietary"}}], ["Proprietary"]),
        ([], ["no licence"]),
    ],
)
def test_unlisted_licences_are_refused(licenses: list[dict], refused: list[str]) -> None:
    assert audit.refused({"name": "package", "licenses": licenses}) == refused


def test_unrunnable_parts_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.main([], tools=tmp_path) == 1
    said = capsys.readouterr().out
    assert said.count("failed") == len(audit.PARTS)
    assert "passed" not in said


def test_the_oldest_versions_of_each_extra_are_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(audit, "run", lambda *command: ran.append([*map(str, command)]) or "")
    audit.lowest(tmp_path)
    resolved = [command for command in ran if command[0].endswith("uv")]
    audited = [command for command in ran if command[0].endswith("pip-audit")]
    assert len(resolved) == len(audited)
    assert all("lowest-direct" in command for command in resolved)
    extras = {command[command.index("--extra") + 1] for command in resolved if "--extra" in command}
    assert {"embeddings", "huggingface", "torch", "state", "onnx"} <= extras
    assert not {extra for extra in extras if extra.startswith("test")}
