"""The audit log."""

import json
import stat

import pytest

from inferstream import Settings
from inferstream.errors import InvalidSettings
from inferstream.plugins.keys.audit import AuditLog, AuditRecord, open_audit_log


def record(i=0):
    return AuditRecord(
        1e9 + i, "alice", "k1", "10.0.0.1", "rest", "v2", "infer", "m", "1", f"r{i}", 12, 345, 200, "success"
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "audit.jsonl"


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_record_is_a_line(path):
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


def test_unopenable_file_aborts_startup(tmp_path):
    with pytest.raises(OSError, match="directory"):
        AuditLog(str(tmp_path))


def test_key_in_audit_record_is_removed():
    assert not {"headers", "inputs", "outputs", "secret", "token"} & {*AuditRecord.__struct_fields__}


def test_unopenable_log_aborts_startup(tmp_path):
    with pytest.raises(InvalidSettings, match="directory"):
        open_audit_log(Settings(audit_log=str(tmp_path)))
