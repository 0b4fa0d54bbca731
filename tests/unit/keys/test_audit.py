"""The audit log."""

import json
import logging
import os
import stat
import threading

import pytest

from inferstream.errors import InvalidSettings
from inferstream.keys.audit import AuditLog, AuditRecord, open_audit_log
from inferstream.telemetry import background


def record(i=0):
    return AuditRecord(
        1e9 + i, "alice", "k1", "10.0.0.1", "rest", "v2", "infer", "m", "1", f"r{i}", 12, 345, 200, "success"
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "audit.jsonl"


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_record_is_a_line(path):
    log = AuditLog(str(path))
    log.put(record())
    log.close()
    assert lines(path) == [
        {
            "time": 1e9,
            "principal": "alice",
            "key": "k1",
            "peer": "10.0.0.1",
            "door": "rest",
            "dialect": "v2",
            "operation": "infer",
            "model": "m",
            "version": "1",
            "request_id": "r0",
            "tokens": 12,
            "bytes": 345,
            "status": 200,
            "end": "success",
        }
    ]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_records_keep_their_order_and_earlier_ones_stay(path):
    for start in (0, 3000):
        log = AuditLog(str(path))
        for i in range(3000):
            log.put(record(start + i))
        log.close()
    assert [line["request_id"] for line in lines(path)] == [f"r{i}" for i in range(6000)]


def test_a_file_that_cannot_be_opened_ends_the_start(tmp_path):
    with pytest.raises(OSError, match="directory"):
        AuditLog(str(tmp_path))


class Disk:
    """`os.write` that waits, fails or writes a part."""

    def __init__(self, monkeypatch):
        self.outcomes = []
        self.open = threading.Event()
        self.open.set()
        self.arrived = threading.Semaphore(0)
        self.write = os.write
        monkeypatch.setattr(background.os, "write", self)

    def __call__(self, descriptor, text):
        self.arrived.release()
        assert self.open.wait(30)
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if isinstance(outcome, OSError):
            raise outcome
        return self.write(descriptor, text[:outcome])


def test_a_slow_disk_loses_records_and_counts_them(path, monkeypatch):
    monkeypatch.setattr(background, "MOST", 10)
    disk = Disk(monkeypatch)
    disk.open.clear()
    log = AuditLog(str(path))
    log.put(record())
    disk.arrived.acquire()
    for i in range(1, 31):
        log.put(record(i))
    disk.open.set()
    log.close()
    written = lines(path)
    assert [line.get("request_id") for line in written] == ["r0", None, *(f"r{i}" for i in range(1, 11))]
    assert written[1] == {"time": 1e9 + 1, "dropped": 20}


def test_a_full_disk_stops_nothing_and_is_said_once(path, monkeypatch, caplog):
    disk = Disk(monkeypatch)
    disk.outcomes = [OSError(28, "No space left on device"), OSError(28, "No space left on device"), 20]
    log = AuditLog(str(path))
    for i in range(4):
        log.put(record(i))
        disk.arrived.acquire()
    log.close()
    assert [each.levelno for each in caplog.records if "not written" in each.message][:1] == [logging.ERROR]
    torn, dropped, last = path.read_text().splitlines()
    assert len(torn) == 20
    assert json.loads(dropped)["dropped"] == 3
    assert json.loads(last)["request_id"] == "r3"
    assert "is written again" in caplog.text


def test_a_file_that_was_moved_away_is_begun_again(path):
    log = AuditLog(str(path))
    path.rename(f"{path}.1")
    log.put(record())
    log.close()
    assert [line["request_id"] for line in lines(path)] == ["r0"]


def test_a_key_in_a_record_has_no_field():
    assert not {"headers", "inputs", "outputs", "secret", "token"} & {*AuditRecord.__struct_fields__}


def test_a_log_that_cannot_be_opened_ends_the_start(tmp_path):
    with pytest.raises(InvalidSettings, match="directory"):
        open_audit_log(str(tmp_path))
