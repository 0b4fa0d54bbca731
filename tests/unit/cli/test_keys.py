"""`server keys` from the shell: what it prints, its exit codes, and the files it leaves."""

import json
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest
from typer.testing import CliRunner

from inferstream.cli.main import app
from inferstream.errors import InvalidSettings
from inferstream.keys.authenticator import KeyAuthenticator
from inferstream.keys.document import expiry
from inferstream.keys.errors import Unauthenticated
from inferstream.keys.file import edit, read_keys

from ..keys.documents import entry


@pytest.fixture
def keys(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*arguments, code=0):
        result = CliRunner().invoke(app, ["keys", *arguments])
        assert result.exit_code == code, result.output
        return result.output if code else result.stdout

    return run


def document(folder):
    return read_keys(folder / "keys.json")


def test_add_prints_a_key_that_only_its_owner_has(keys, tmp_path):
    key = keys(
        "add", "--principal", "alice", "--scope", "infer", "--scope", "metrics", "--model", "llm-*",
        "--expires", "30d", "--limit", "in_flight=2", "--limit", "requests_per_second=0.5",
    ).strip()  # fmt: skip
    principal = KeyAuthenticator(document(tmp_path)).authenticate(key)
    assert (principal.name, principal.scopes) == ("alice", {"infer", "metrics"})
    assert principal.sees("llm-1")
    assert not principal.sees("other")
    assert principal.limits.in_flight == 2
    assert principal.limits.requests_per_second == 0.5
    assert principal.expires < float("inf")
    contents = (tmp_path / "keys.json").read_text()
    assert key not in contents
    assert key.rpartition("_")[2] not in contents
    assert stat.S_IMODE((tmp_path / "keys.json").stat().st_mode) == 0o600


def test_a_key_may_infer_and_stream_by_default(keys, tmp_path):
    keys("add", "--principal", "alice")
    assert document(tmp_path).keys[0].scopes == ["infer", "stream"]
    assert document(tmp_path).keys[0].models == ["*"]


def test_list_shows_no_hash(keys, tmp_path):
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


def test_a_revoked_key_is_gone(keys, tmp_path):
    key = keys("add", "--principal", "alice").strip()
    keys("revoke", document(tmp_path).keys[0].id)
    with pytest.raises(Unauthenticated):
        KeyAuthenticator(document(tmp_path)).authenticate(key)


def test_rotation_keeps_rights_and_ends_the_old_key(keys, tmp_path):
    keys("add", "--principal", "alice", "--model", "a", "--limit", "streams=1")
    before = document(tmp_path).keys[0]
    key = keys("rotate", before.id, "--overlap", "1h").strip()
    old, new = document(tmp_path).keys
    assert old.sha256 == before.sha256
    assert old.expires is not None
    assert new.expires is None
    assert (new.principal, new.models, new.limits) == ("alice", ["a"], before.limits)
    assert KeyAuthenticator(document(tmp_path)).authenticate(key).key == new.id


def test_an_overlap_lengthens_no_key(keys, tmp_path):
    keys("add", "--principal", "alice", "--expires", "1h")
    before = document(tmp_path).keys[0]
    keys("rotate", before.id, "--overlap", "2d")
    assert document(tmp_path).keys[0].expires == before.expires
    assert expiry(document(tmp_path).keys[1].expires) == expiry(before.expires)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--scope", "root"], 'scope "root" is unknown'),
        (["--expires", "3x"], '"expires" must be a time in UTC'),
        (["--expires", "3x"], "or a duration, such as 30d"),
        (["--expires", "999999w"], "too long"),
        (["--limit", "in_flight=-1"], "must be 0 or more"),
        (["--limit", "in_flight"], '"in_flight" is no limit with a number'),
        (["--limit", "nothing=1"], '"nothing" is no limit; there are requests_per_second, burst'),
        (["--limit", "in_flight=x"], "is no limit with a number"),
    ],
)
def test_a_wrong_option_ends_with_2(keys, tmp_path, options, message):
    shown = keys("add", "--principal", "a", *options, code=2)
    assert message in " ".join(shown.replace("│", " ").split())
    assert not (tmp_path / "keys.json").exists()


def test_a_failure_ends_with_1(keys, tmp_path):
    assert "there is no such file" in keys("list", code=1)
    assert 'there is no key with the id "zz"' in keys("revoke", "zz", code=1)
    assert "no usage file" in keys("usage", code=1)
    (tmp_path / "keys.json").write_text("{")
    assert "line 1 column 2" in keys("add", "--principal", "a", code=1)
    assert (tmp_path / "keys.json").read_text() == "{"
    assert "No such file or directory" in keys("add", "--principal", "a", "--file", "none/keys.json", code=1)


def test_the_settings_name_the_files(keys, tmp_path):
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


def test_two_who_edit_at_once_lose_nothing(tmp_path):
    path = tmp_path / "keys.json"

    def add(i):
        edit(path, lambda document: document.keys.append(entry(id=f"k{i}")))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(40)))
    assert {key.id for key in read_keys(path).keys} == {f"k{i}" for i in range(40)}


def test_an_edit_that_fails_leaves_the_file(tmp_path):
    path = tmp_path / "keys.json"
    edit(path, lambda document: document.keys.append(entry()))
    before = path.read_bytes()
    with pytest.raises(InvalidSettings, match="there twice"):
        edit(path, lambda document: document.keys.append(entry()))
    assert path.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == [".keys.json.lock", "keys.json"]


def test_add_says_that_the_server_does_not_read_the_file_yet(keys, tmp_path):
    add = ["keys", "add", "--principal", "alice"]
    assert '"keys_file": "keys.json"' in CliRunner().invoke(app, add).stderr
    (tmp_path / "settings.json").write_text('{"keys_file": "keys.json"}')
    assert CliRunner().invoke(app, add).stderr == ""
    assert CliRunner().invoke(app, [*add, "--file", "other.json"]).stderr == ""
