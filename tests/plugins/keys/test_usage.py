"""The use of keys by day, over restarts."""

import json
import logging

import pytest

from inferstream.errors import InvalidSettings
from inferstream.plugins.keys import usage
from inferstream.plugins.keys.usage import UsageFile, Used, read_usage

DAY = 86_400
WALL = 20_000 * DAY + 100.0
TODAY = "2024-10-04"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "usage.json"


def test_usage_accumulates_over_restarts(path):
    for requests in (1, 2):
        file = UsageFile(path)
        file.add("k1", "alice", Used(requests, 0, 5, 7), WALL)
        file.add("k1", "alice", Used(1, 1, 3, 0), WALL)
        file.add("k2", "bob", Used(1, 0, 0, 0), WALL)
        file.save()
    assert json.loads(path.read_text()) == {
        "version": 1,
        "days": {
            TODAY: {
                "k1": {"principal": "alice", "requests": 5, "refused": 2, "tokens": 16, "bytes": 14},
                "k2": {"principal": "bob", "requests": 2, "refused": 0, "tokens": 0, "bytes": 0},
            }
        },
    }
    assert [*UsageFile(path).today(WALL)] == [("k1", "alice", 16), ("k2", "bob", 0)]
    assert [*UsageFile(path).today(WALL + DAY)] == []


def test_days_start_once(path):
    file = UsageFile(path)
    file.add("k1", "alice", Used(1, 0, 0, 0), WALL + DAY)
    file.add("k1", "alice", Used(2, 0, 0, 0), WALL)
    file.save()
    assert {day: keys["k1"].requests for day, keys in read_usage(path).items()} == {"2024-10-05": 3}


def test_old_days_are_removed_from_file(path):
    file = UsageFile(path)
    for day in range(70):
        file.add("k1", "alice", Used(day + 1, 0, 0, 0), WALL + day * DAY)
    file.save()
    days = sorted(read_usage(path))
    assert len(days) == usage.DAYS
    assert days[0] == "2024-10-12"


def test_corrected_clock_deletes_no_day(path):
    file = UsageFile(path)
    for day in range(40):
        file.add("k1", "alice", Used(day + 1, 0, 0, 0), WALL + day * DAY)
    file.add("k1", "alice", Used(41, 0, 0, 0), WALL + 400 * DAY)
    file.save()
    assert len(read_usage(path)) == 41
    for _ in range(2):
        file.add("k2", "bob", Used(1, 0, 7, 0), WALL + 40 * DAY)
        file.save()
        file = UsageFile(path)
    days = read_usage(path)
    assert days["2024-11-13"]["k2"].requests == 2
    assert [*UsageFile(path).today(WALL + 40 * DAY)] == [("k2", "bob", 14)]


def test_unchanged_usage_is_not_written(path, monkeypatch):
    file = UsageFile(path)
    file.save()
    assert not path.exists()
    file.add("k1", "alice", Used(1, 0, 0, 0), WALL)
    file.save()
    monkeypatch.setattr(usage, "replace", lambda path, text: pytest.fail("it was written"))
    file.save()


def test_full_disk_stops_nothing_and_is_logged_once(path, monkeypatch, caplog):
    file = UsageFile(path)
    with monkeypatch.context() as full:
        full.setattr(usage, "replace", lambda path, text: (_ for _ in ()).throw(OSError(28, "full")))
        for _ in range(3):
            file.add("k1", "alice", Used(1, 0, 0, 0), WALL)
            file.save()
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "No space left on device" in caplog.text
    file.save()
    assert "saving key usage works again" in caplog.text
    assert read_usage(path)[TODAY]["k1"].requests == 3


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"version": 2, "days": {}}',
        '{"version": 1, "days": {"soon": {}}}',
        '{"version": 1, "days": {}, "x": 1}',
    ],
)
def test_broken_file_aborts_startup_and_is_kept(path, text):
    path.write_text(text)
    with pytest.raises(InvalidSettings, match=r"usage\.json: "):
        UsageFile(path)
    assert path.read_text() == text
