"""Lines of JSON in a file, whatever its disk does."""

import json
import logging
import os
import stat
import threading

import msgspec
import pytest

from inferstream.telemetry.lines import LineFile


class Noted(msgspec.Struct):
    time: float
    request_id: str


class Lines(LineFile[Noted]):
    name = "note"
    logger = logging.getLogger("inferstream.notes")


def record(i=0):
    return Noted(1e9 + i, f"r{i}")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "notes.jsonl"


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_records_keep_their_order_and_previous_content(path):
    for start in (0, 3000):
        log = Lines(str(path))
        for i in range(3000):
            log.put(record(start + i))
        log.close()
    assert [line["request_id"] for line in lines(path)] == [f"r{i}" for i in range(6000)]


class Disk:
    """`os.write` that waits, fails or writes a part."""

    def __init__(self, monkeypatch):
        self.outcomes = []
        self.open = threading.Event()
        self.open.set()
        self.arrived = threading.Semaphore(0)
        self.write = os.write
        monkeypatch.setattr(os, "write", self)

    def __call__(self, descriptor, text):
        self.arrived.release()
        assert self.open.wait(30)
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if isinstance(outcome, OSError):
            raise outcome
        return self.write(descriptor, text[:outcome])


def test_slow_disk_drops_and_counts_records(path, monkeypatch):
    monkeypatch.setattr(LineFile, "capacity", 10)
    disk = Disk(monkeypatch)
    disk.open.clear()
    log = Lines(str(path))
    log.put(record())
    disk.arrived.acquire()
    for i in range(1, 31):
        log.put(record(i))
    disk.open.set()
    log.close()
    written = lines(path)
    assert [line.get("request_id") for line in written] == ["r0", None, *(f"r{i}" for i in range(1, 11))]
    assert written[1] == {"time": 1e9 + 1, "dropped": 20}


def test_full_disk_is_reported_once_without_stopping(path, monkeypatch, caplog):
    disk = Disk(monkeypatch)
    disk.outcomes = [OSError(28, "No space left on device"), OSError(28, "No space left on device"), 20]
    log = Lines(str(path))
    for i in range(4):
        log.put(record(i))
        disk.arrived.acquire()
    log.close()
    assert [each.levelno for each in caplog.records if "note failed" in each.message][:1] == [logging.ERROR]
    torn, dropped, last = path.read_text().splitlines()
    assert len(torn) == 20
    assert json.loads(dropped)["dropped"] == 3
    assert json.loads(last)["request_id"] == "r3"
    assert "writing the note works again" in caplog.text


def test_moved_file_is_recreated(path):
    log = Lines(str(path))
    path.rename(f"{path}.1")
    log.put(record())
    log.close()
    assert [line["request_id"] for line in lines(path)] == ["r0"]


def test_new_file_is_private_and_existing_file_keeps_its_mode(path):
    Lines(str(path)).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    Lines(str(path)).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_pending_records_are_written_on_close(path):
    class Ending(Lines):
        def pending_records(self):
            return [record(7)]

    log = Ending(str(path))
    log.put(record())
    log.close()
    assert [line["request_id"] for line in lines(path)] == ["r0", "r7"]


def test_unwritable_record_does_not_affect_others(path, caplog):
    log = Lines(str(path))
    log.put(Noted(1e9, object()))
    log.close()
    log = Lines(str(path))
    log.put(record(1))
    log.close()
    assert [line["request_id"] for line in lines(path)] == ["r1"]
    assert "writing the note failed: TypeError: " in caplog.text
