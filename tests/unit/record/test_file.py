"""The file of recordings: what waits for the disk."""

import json
from pathlib import Path

from inferstream.record.file import MOST_BYTES, RecordFile
from inferstream.record.recording import PortRecording
from inferstream.settings.record import RecordSettings
from tests.serving import eventually


def recorded(file: RecordFile, content: bytes, model: str = "m") -> None:
    recording = PortRecording("http", "v2", model, {"headers": [], "target": "/"})
    file.open(recording)
    recording.add("in", content)
    file.end(recording, 200)


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_recordings_go_on_after_more_bytes_than_may_wait(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    file = RecordFile(RecordSettings(path=str(path)), frozenset())
    for count in range(1, 4):
        recorded(file, bytes(MOST_BYTES // 2 + 1))
        eventually(lambda count=count: len(lines(path)) == count, 20)
    file.close()
    assert not any("dropped" in line for line in lines(path))


def test_a_record_that_cannot_be_written_costs_no_other(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    file = RecordFile(RecordSettings(path=str(path), bodies=True, redact=["prompt"]), frozenset({"prompt"}))
    recorded(file, b"[" * 200_000)
    broken = PortRecording("http", "v2", "m", {"target": "/"})
    file.open(broken)
    file.end(broken, 200)
    eventually(lambda: file._records.qsize() == 0, 20)
    recorded(file, b'{"n": 1}')
    eventually(lambda: '"n": 1' in path.read_text() or '\\"n\\": 1' in path.read_text(), 20)
    file.close()
