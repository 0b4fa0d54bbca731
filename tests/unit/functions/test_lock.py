"""Field numbers of typed requests stay as they are when a function's arguments change."""

from pathlib import Path

import pytest

from inferstream.errors import InvalidSettings
from inferstream.functions.lock import (
    LockedField,
    TypeChanged,
    format_lock,
    lock_path,
    merge_fields,
    read_lock,
)

KNOWN = {"a": LockedField(1, "int64"), "b": LockedField(4, "string")}


def test_known_field_numbers_are_kept_and_new_ones_are_appended() -> None:
    fields = merge_fields(KNOWN, {"c": "bool", "b": "string", "a": "int64", "d": "bool"})
    assert fields == {**KNOWN, "c": LockedField(5, "bool"), "d": LockedField(6, "bool")}


def test_number_of_a_removed_argument_is_not_reused() -> None:
    without = merge_fields(KNOWN, {"a": "int64"})
    assert without["b"] == LockedField(4, "string", removed=True)
    assert merge_fields(without, {"a": "int64", "c": "bool"})["c"].number == 5
    assert merge_fields(without, {"a": "int64", "b": "string"}) == KNOWN


@pytest.mark.parametrize("removed", [False, True])
def test_changed_type_under_the_same_number_is_refused(removed: bool) -> None:
    known = {"a": LockedField(1, "int64", removed)}
    with pytest.raises(TypeChanged, match='"a" was int64 and is now repeated int64, and field 1'):
        merge_fields(known, {"a": "repeated int64"})


def test_lock_file_is_sorted_and_round_trips(tmp_path: Path) -> None:
    lock = {"z": merge_fields(KNOWN, {"b": "string"}), 'größe "': {}, "a": {}}
    file = tmp_path / "lock.json"
    file.write_text(format_lock(lock))
    assert read_lock(file) == lock
    lines = file.read_text().splitlines()
    assert [line.split('"')[1] for line in lines[2:4]] == ["a", "gr\\u00f6\\u00dfe \\"]
    assert '      "b": {"number": 4, "type": "string"}' in lines
    assert '      "a": {"number": 1, "type": "int64", "removed": true},' in lines
    file.write_text(format_lock({}))
    assert read_lock(file) == {}
    assert read_lock(tmp_path / "none.json") == {}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "not a lock file"),
        ("[]", "not a lock file"),
        ('{"requests": {"m": {"a": 1}}}', "not a lock file"),
        ('{"requests": {"m": {"a": {"number": 0, "type": "int64"}}}}', "not a lock file"),
        ('{"requests": {"m": {"a": {"number": 1, "type": "int64", "x": 1}}}}', "not a lock file"),
        (
            '{"requests": {"m": {"a": {"number": 1, "type": "int64"}, "b": {"number": 1, "type": "int64"}}}}',
            "two arguments of m share a field number",
        ),
    ],
)
def test_invalid_lock_file_is_named_in_one_line(text: str, fault: str, tmp_path: Path) -> None:
    file = tmp_path / "lock.json"
    file.write_text(text)
    with pytest.raises(InvalidSettings) as caught:
        read_lock(file)
    assert caught.value.message.startswith("lock.json: ")
    assert fault in caught.value.message
    assert "\n" not in caught.value.message


def test_lock_file_is_next_to_the_module() -> None:
    assert lock_path("app:app", "/x/app.py") == Path("/x/app.app.proto-lock.json")
    assert lock_path("shop.prices:service", "/x/prices.py") == Path("/x/shop/prices.service.proto-lock.json")
