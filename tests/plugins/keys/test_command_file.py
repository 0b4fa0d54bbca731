"""The keys and their use, as the commands leave them in their files."""

import json
import time

import pytest

from inferstream.plugins.keys import command_file as keys_file
from inferstream.plugins.keys.authenticator import KeyAuthenticator
from inferstream.plugins.keys.document import parse_expiry
from inferstream.plugins.keys.file import edit, read_keys
from tests.plugins.keys.documents import entry
from tests.plugins.keys.test_command import document


def test_list_hides_hashes(keys, tmp_path):
    keys("add", "--principal", "alice", "--limit", "in_flight=2")
    entry = document(tmp_path).keys[0]
    listed = json.loads(keys("list", "--json"))
    assert listed["schema"] == "inferstream.keys/1"
    assert listed["keys"] == [
        {
            "id": entry.id,
            "principal": "alice",
            "scopes": ["infer", "stream"],
            "models": ["*"],
            "expires": None,
            "limits": {"in_flight": 2},
            "expired": False,
        }
    ]
    shown = keys("list")
    assert "alice  infer,stream  *  in_flight=2" in shown
    assert entry.sha256 not in shown


def test_rotation_keeps_scopes_and_expires_old_key(keys, tmp_path):
    keys("add", "--principal", "alice", "--model", "a", "--limit", "streams=1")
    before = document(tmp_path).keys[0]
    key = keys("rotate", before.id, "--overlap", "1h").strip()
    old, new = document(tmp_path).keys
    assert old.sha256 == before.sha256
    assert old.expires is not None
    assert new.expires is None
    assert (new.principal, new.models, new.limits) == ("alice", ["a"], before.limits)
    assert KeyAuthenticator(document(tmp_path)).authenticate(key).key == new.id


def test_expired_key_is_not_rotated(keys, tmp_path):
    old = entry(id="old", expires="2020-01-01T00:00:00Z")
    edit(tmp_path / "keys.json", lambda document: document.keys.append(old))
    assert 'the key "old" expired at 2020-01-01T00:00:00Z' in keys("rotate", "old", code=1)
    assert len(document(tmp_path).keys) == 1


def test_overlap_does_not_extend_key(keys, tmp_path):
    keys("add", "--principal", "alice", "--expires", "1h")
    before = document(tmp_path).keys[0]
    keys("rotate", before.id, "--overlap", "2d")
    assert document(tmp_path).keys[0].expires == before.expires
    assert parse_expiry(document(tmp_path).keys[1].expires) == parse_expiry(before.expires)


def test_settings_name_the_files(keys, tmp_path):
    (tmp_path / "settings.json").write_text('{"keys_file": "k.json", "usage_file": "u.json"}')
    keys("add", "--principal", "alice")
    assert (tmp_path / "k.json").exists()
    assert "u.json: there is no such file" in keys("usage", code=1)
    day = {"k1": {"principal": "alice", "requests": 3, "refused": 1, "tokens": 20, "bytes": 9}}
    (tmp_path / "u.json").write_text(json.dumps({"version": 1, "days": {"2030-01-31": day}}))
    assert keys("usage").split() == [
        "2030-01-31",
        "k1",
        "alice",
        *["3", "requests", "1", "refused", "20", "tokens", "9", "bytes"],
    ]
    shown = json.loads(keys("usage", "--json"))
    assert shown["usage"] == [{"day": "2030-01-31", "key": "k1", **day["k1"]}]


def test_list_marks_expired_keys(keys, tmp_path):
    edit(
        tmp_path / "keys.json",
        lambda document: document.keys.extend(
            [entry(id="old", expires="2020-01-01T00:00:00Z"), entry(id="new", expires="2999-01-01T00:00:00Z")]
        ),
    )
    listed = json.loads(keys("list", "--json"))["keys"]
    assert [(key["id"], key["expired"]) for key in listed] == [("old", True), ("new", False)]
    assert [line.split()[0::4] for line in keys("list").splitlines()] == [
        ["old", "expired"],
        ["new", "expires"],
    ]


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("2m", 120), ("3h", 10800), ("1d", 86400), ("1w", 604800)]
)
def test_duration_starts_now(tmp_path, capsys, text, seconds):
    path = tmp_path / "keys.json"
    before = int(time.time())
    keys_file.add(path, "alice", ["infer"], ["*"], text, [])
    [key] = read_keys(path).keys
    assert before + seconds <= parse_expiry(key.expires) <= time.time() + seconds


def test_time_format_is_preserved(tmp_path, capsys):
    path = tmp_path / "keys.json"
    keys_file.add(path, "alice", ["infer"], ["*"], "2999-01-01T00:00:00Z", [])
    assert read_keys(path).keys[0].expires == "2999-01-01T00:00:00Z"


def test_overlap_sets_or_keeps_expiry(tmp_path, capsys):
    path = tmp_path / "keys.json"
    for key in (entry(id="never"), entry(id="soon", expires="2030-01-01T00:00:00Z")):
        edit(path, lambda document, key=key: document.keys.append(key))
        keys_file.rotate(path, key.id, "2999-01-01T00:00:00Z")
    never, first, soon, second = read_keys(path).keys
    assert (never.expires, first.expires) == ("2999-01-01T00:00:00Z", None)
    assert soon.expires == second.expires == "2030-01-01T00:00:00Z"
    assert len({never.sha256, first.sha256, soon.sha256, second.sha256}) == 4
