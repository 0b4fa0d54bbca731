"""The file of recordings: what waits for the disk."""

import json
from pathlib import Path

from inferstream.record import file as file_module
from inferstream.record.file import RecordFile
from inferstream.record.recording import CREDENTIALS, EVENT_BYTES, MOST_BYTES, PortRecording, RecordedRequest
from inferstream.settings.record import RecordSettings
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


def test_recordings_go_on_after_more_bytes_than_may_wait(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    file = RecordFile(RecordSettings(path=str(path), bodies=True, max_bytes=2**30), frozenset())
    for count in range(1, 4):
        recorded(file, bytes(MOST_BYTES // 2 + 1))
        eventually(lambda count=count: len(lines(path)) == count, 20)
    file.close()
    assert not any("dropped" in line for line in lines(path))


def test_a_record_that_cannot_be_written_costs_no_other(tmp_path: Path) -> None:
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


def test_open_recordings_are_bounded_in_bytes_and_say_what_they_dropped(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    file = RecordFile(RecordSettings(path=str(path), models=["m"], bodies=True), frozenset())
    unnamed = opened(file, "")
    for _ in range(5):
        unnamed.add("in", bytes(MOST_BYTES // 4))
    assert unnamed.dropped == 2
    assert file.waiting.added - file.waiting.taken == 3 * (MOST_BYTES // 4 + EVENT_BYTES)
    unnamed.model = "m"
    file.end(unnamed, 200)
    file.close()
    [line] = lines(path)
    assert (line["dropped"], len(line["events"])) == (2, 4)
    assert file.waiting.added == file.waiting.taken


def test_without_bodies_contents_are_not_kept(tmp_path: Path) -> None:
    file = RecordFile(RecordSettings(path=str(tmp_path / "record.jsonl")), frozenset())
    recording = opened(file)
    recording.add("in", bytes(MOST_BYTES * 2))
    assert [content for _, _, content in recording.events] in ([MOST_BYTES * 2], [])
    assert recording.dropped == 0
    file.end(recording, 200)
    file.close()


def test_what_names_no_model_or_another_one_is_dropped_early(tmp_path: Path, monkeypatch) -> None:
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


def test_a_recording_that_is_refused_takes_no_room(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("inferstream.telemetry.background.MOST", 0)
    file = RecordFile(RecordSettings(path=str(tmp_path / "record.jsonl"), bodies=True), frozenset())
    recorded(file, bytes(1000))
    file.close()
    assert file.waiting.added == file.waiting.taken


def test_two_processes_that_rotate_lose_nothing_of_the_newest_half(tmp_path: Path) -> None:
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


def test_names_of_credential_headers_are_no_names_of_json(tmp_path: Path) -> None:
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
