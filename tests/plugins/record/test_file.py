"""The file of recordings: what waits for the disk."""

import json
from pathlib import Path

from inferstream.plugins.record import file as file_module
from inferstream.plugins.record.file import RecordFile
from inferstream.plugins.record.recording import (
    CREDENTIALS,
    EVENT_BYTES,
    MAX_BYTES,
    PortRecording,
    RecordedRequest,
)
from inferstream.plugins.record.settings import RecordSettings
from tests.serving import eventually


def opened(file: RecordFile, model: str = "m") -> PortRecording:
    recording = PortRecording(file.waiting, "http", "v2", model, RecordedRequest("/", [], "POST"))
    file.open(recording)
    return recording


def recorded(file: RecordFile, content: bytes, model: str = "m") -> None:
    recording = opened(file, model)
    recording.add("in", content)
    file.end(recording, 200)


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_recordings_continue_after_buffer_overflow(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    file = RecordFile(RecordSettings(path=str(path), bodies=True, max_bytes=2**30), frozenset())
    for count in range(1, 4):
        recorded(file, bytes(MAX_BYTES // 2 + 1))
        eventually(lambda count=count: len(lines(path)) == count, 20)
    file.close()
    assert not any("dropped" in line for line in lines(path))


def test_unwritable_record_affects_no_other(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    file = RecordFile(RecordSettings(path=str(path), bodies=True, redact=["prompt"]), frozenset({"prompt"}))
    recorded(file, b"[" * 200_000)
    broken = opened(file)
    broken.mark("head", ())
    file.end(broken, 200)
    eventually(lambda: file._records.qsize() == 0, 20)
    recorded(file, b'{"n": 1}')
    eventually(lambda: '"n": 1' in path.read_text() or '\\"n\\": 1' in path.read_text(), 20)
    file.close()
    assert file.waiting.added == file.waiting.taken


def test_open_recordings_are_bounded_and_report_drops(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    file = RecordFile(RecordSettings(path=str(path), models=["m"], bodies=True), frozenset())
    unnamed = opened(file, "")
    for _ in range(5):
        unnamed.add("in", bytes(MAX_BYTES // 4))
    assert unnamed.dropped == 2
    assert file.waiting.added - file.waiting.taken == 3 * (MAX_BYTES // 4 + EVENT_BYTES)
    unnamed.model = "m"
    file.end(unnamed, 200)
    file.close()
    [line] = lines(path)
    assert (line["dropped"], len(line["events"])) == (2, 4)
    assert file.waiting.added == file.waiting.taken


def test_contents_are_dropped_without_bodies(tmp_path: Path) -> None:
    file = RecordFile(RecordSettings(path=str(tmp_path / "record.jsonl")), frozenset())
    recording = opened(file)
    recording.add("in", bytes(MAX_BYTES * 2))
    assert [content for _, _, content in recording.events] in ([MAX_BYTES * 2], [])
    assert recording.dropped == 0
    file.end(recording, 200)
    file.close()


def test_requests_for_other_models_are_dropped_early(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(file_module, "NAMED", 0.0)
    path = tmp_path / "record.jsonl"
    file = RecordFile(RecordSettings(path=str(path), models=["m"], bodies=True), frozenset())
    unnamed, other = opened(file, ""), opened(file, "other")
    for recording in (unnamed, other):
        recording.add("in", bytes(1000))
    eventually(lambda: not unnamed.events and not other.events, 20)
    assert file.waiting.added == file.waiting.taken
    file.end(unnamed, 200)
    file.end(other, 200)
    file.close()
    assert lines(path) == []


def test_refused_recording_uses_no_space(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(RecordFile, "capacity", 0)
    file = RecordFile(RecordSettings(path=str(tmp_path / "record.jsonl"), bodies=True), frozenset())
    recorded(file, bytes(1000))
    file.close()
    assert file.waiting.added == file.waiting.taken


def test_two_rotating_processes_lose_no_recent_records(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    settings = RecordSettings(path=str(path), bodies=True, max_bytes=2**16)
    files = [RecordFile(settings, frozenset()) for _ in range(2)]
    older = tmp_path / "record.jsonl.1"
    for number in range(40):
        for file in files:
            recorded(file, number.to_bytes(2, "big") * 1000)
        eventually(lambda: all(file.waiting.added == file.waiting.taken for file in files), 20)
        sizes = [each.stat().st_size for each in tmp_path.glob("record.jsonl.1*")]
        assert not sizes or sum(sizes) * 2 >= settings.max_bytes  # and no rotation of an empty file
    for file in files:
        file.close()
    for lines_of, beside in ((path, f"{path}.bin"), (older, f"{older}.bin")):
        contents = Path(beside).read_bytes()
        for line in lines(lines_of):
            start, length = line["events"][0][2]
            content = contents[start : start + length]
            assert content == content[:2] * 1000


def test_credential_header_names_are_not_json_fields(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    hidden = CREDENTIALS.union(["prompt", "x-mine"])
    file = RecordFile(RecordSettings(path=str(path), bodies=True, redact=["prompt"]), hidden)
    recorded(file, b'{"token": {"text": "a"}, "key": 1, "prompt": "b", "x-mine": 2, "authorization": 3}')
    file.close()
    [line] = lines(path)
    assert json.loads(line["events"][0][2]) == {
        "token": {"text": "a"},
        "key": 1,
        "prompt": "[redacted]",
        "x-mine": "[redacted]",
        "authorization": "[redacted]",
    }
