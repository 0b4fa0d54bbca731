"""`server keys` from the shell: what it prints, its exit codes, and the files it leaves."""

import stat

import pytest
from typer.testing import CliRunner

from inferstream.ext.hosting import command_line as app
from inferstream.plugins.keys.authenticator import KeyAuthenticator
from inferstream.plugins.keys.errors import Unauthenticated
from inferstream.plugins.keys.file import read_keys


def document(folder):
    return read_keys(folder / "keys.json")


def test_add_prints_key_and_stores_only_hash(keys, tmp_path):
    key = keys(
        "add", "--principal", "alice", "--scope", "infer", "--scope", "metrics", "--model", "llm-*",
        "--expires", "30d", "--limit", "in_flight=2", "--limit", "requests_per_second=0.5",
    ).strip()  # fmt: skip
    principal = KeyAuthenticator(document(tmp_path)).authenticate(key)
    assert (principal.name, principal.scopes) == ("alice", {"infer", "metrics", None})
    assert principal.sees("llm-1")
    assert not principal.sees("other")
    assert principal.limits.in_flight == 2
    assert principal.limits.requests_per_second == 0.5
    assert principal.expires < float("inf")
    contents = (tmp_path / "keys.json").read_text()
    assert key not in contents
    assert key.split("_", 2)[2] not in contents
    assert stat.S_IMODE((tmp_path / "keys.json").stat().st_mode) == 0o600


def test_key_has_infer_and_stream_scopes_by_default(keys, tmp_path):
    keys("add", "--principal", "alice")
    assert document(tmp_path).keys[0].scopes == ["infer", "stream"]
    assert document(tmp_path).keys[0].models == ["*"]


def test_revoked_key_is_removed(keys, tmp_path):
    key = keys("add", "--principal", "alice").strip()
    keys("revoke", document(tmp_path).keys[0].id)
    with pytest.raises(Unauthenticated):
        KeyAuthenticator(document(tmp_path)).authenticate(key)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--scope", "root"], 'scope "root" is unknown'),
        (["--expires", "3x"], '"expires" must be a time in UTC'),
        (["--expires", "3x"], "or a duration, such as 30d"),
        (["--expires", "999999w"], "too long"),
        (["--expires", "2001-01-01T00:00:00Z"], '"expires" is 2001-01-01T00:00:00Z, which is over'),
        (["--expires", "0s"], "which is over"),
        (["--limit", "in_flight=-1"], "must be 0 or more"),
        (
            ["--limit", "tokens_per_day=1.5"],
            '"tokens_per_day=1.5": the limit tokens_per_day is a whole number, 0 or more',
        ),
        (["--limit", "in_flight=true"], "the limit in_flight is a whole number"),
        (["--limit", 'requests_per_second="1"'], "the limit requests_per_second is a number, 0 or more"),
        (["--limit", "requests_per_second=NaN"], '"requests_per_second" must be 0 or more'),
        (["--limit", "burst=2"], '"burst" needs "requests_per_second"'),
        (["--limit", "in_flight"], '"in_flight" is no limit with a number'),
        (["--limit", "nothing=1"], '"nothing" is no limit; there are requests_per_second, burst'),
        (["--limit", "in_flight=x"], "is no limit with a number"),
    ],
)
def test_invalid_option_exits_with_2(keys, tmp_path, options, message):
    shown = keys("add", "--principal", "a", *options, code=2)
    assert message in " ".join(shown.replace("│", " ").split())
    assert not (tmp_path / "keys.json").exists()


def test_failure_exits_with_1(keys, tmp_path):
    assert "there is no such file" in keys("list", code=1)
    assert 'there is no key with the id "zz"' in keys("revoke", "zz", code=1)
    assert "no usage file" in keys("usage", code=1)
    (tmp_path / "keys.json").write_text("{")
    assert "line 1 column 2" in keys("add", "--principal", "a", code=1)
    assert (tmp_path / "keys.json").read_text() == "{"
    assert "No such file or directory" in keys("add", "--principal", "a", "--file", "none/keys.json", code=1)


def test_add_warns_if_server_does_not_read_file(keys, tmp_path):
    add = ["keys", "add", "--principal", "alice"]
    assert '"keys_file": "keys.json"' in CliRunner().invoke(app, add).stderr
    (tmp_path / "settings.json").write_text('{"keys_file": "keys.json"}')
    assert CliRunner().invoke(app, add).stderr == ""
    assert CliRunner().invoke(app, [*add, "--file", "other.json"]).stderr == ""
