"""The file of keys while a server runs."""

import logging
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from inferstream.errors import InvalidSettings
from inferstream.plugins.keys import file
from inferstream.plugins.keys.document import Document, SubjectEntry, TokenRules, serialize
from inferstream.plugins.keys.file import VARIABLE, KeySource, edit, read_keys, replace
from inferstream.plugins.keys.secret import new_key
from tests.plugins.keys.documents import entry

OLD = 10**9
"""Seconds since 1970, long ago."""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "keys.json"


def write(path, *ids, time=OLD):
    path.write_bytes(serialize(Document(keys=[entry(id=id) for id in ids])))
    os.utime(path, (time, time))


def ids(document):
    return [key.id for key in document.keys]


@pytest.fixture
def faults(caplog):
    caplog.set_level(logging.WARNING, "inferstream.keys")
    return lambda: caplog.messages


def test_changed_file_is_reread(path):
    write(path, "a")
    source = KeySource(path)
    assert ids(source.read()) == ["a"]
    assert source.read_if_changed() is None
    write(path, "b", time=OLD + 1)
    assert ids(source.read_if_changed()) == ["b"]
    assert source.read_if_changed() is None


def test_replaced_file_counts_as_changed(path):
    write(path, "a")
    source = KeySource(path)
    source.read()
    replace(path, serialize(Document(keys=[entry(id="b")])))
    os.utime(path, (OLD, OLD))
    assert ids(source.read_if_changed()) == ["b"]


def test_file_changed_within_clock_tick_is_reread(path, monkeypatch):
    write(path, "a")
    monkeypatch.setattr(file.time, "time_ns", lambda: OLD * 10**9 + 1)
    source = KeySource(path)
    source.read()
    write(path, "b")
    assert ids(source.read_if_changed()) == ["b"]


def test_unchanged_file_is_not_opened(path, monkeypatch):
    write(path, "a")
    source = KeySource(path)
    source.read()
    monkeypatch.setattr(file, "read_file", lambda path: pytest.fail("it was opened"))
    assert source.read_if_changed() is None


def test_broken_file_keeps_keys_and_warns_once(path, faults):
    write(path, "a")
    source = KeySource(path)
    source.read()
    path.write_text("{")
    for _ in range(3):
        assert source.read_if_changed() is None
    assert len(faults()) == 1
    assert "the previous keys stay in use" in faults()[0]
    assert "line 1 column 2" in faults()[0]
    path.unlink()
    for _ in range(3):
        assert source.read_if_changed() is None
    assert len(faults()) == 2
    assert "there is no such file" in faults()[1]
    write(path, "b")
    assert ids(source.read_if_changed()) == ["b"]
    assert "is valid again" in faults()[2]


def test_broken_file_aborts_startup(path, tmp_path):
    with pytest.raises(InvalidSettings, match="there is no such file"):
        KeySource(path).read()
    path.write_text("[]")
    with pytest.raises(InvalidSettings, match=r"keys\.json: must hold a JSON object"):
        KeySource(path).read()
    with pytest.raises(InvalidSettings, match="not a regular file"):
        KeySource(tmp_path).read()


@pytest.mark.parametrize(("mode", "said"), [(0o600, 0), (0o664, 0), (0o666, 1)])
def test_world_writable_file_is_warned_about(path, faults, mode, said):
    write(path, "a")
    path.chmod(mode)
    assert ids(KeySource(path).read()) == ["a"]
    assert sum("is writable by every user" in each for each in faults()) == said


def test_file_size_is_limited(path):
    write(path, "a")
    os.truncate(path, 2**24 + 1)
    with pytest.raises(InvalidSettings, match=f"larger than {2**24} bytes"):
        KeySource(path).read()


def test_keys_are_read_from_environment(path, monkeypatch):
    monkeypatch.setenv(VARIABLE, serialize(Document(keys=[entry(id="env")])).decode())
    assert ids(KeySource(None).read()) == ["env"]
    assert KeySource(None).read_if_changed() is None
    write(path, "a")
    assert ids(KeySource(path).read()) == ["a", "env"]
    write(path, "env")
    with pytest.raises(InvalidSettings, match=rf'keys\.json and {VARIABLE}: id "env" is there twice'):
        KeySource(path).read()
    monkeypatch.setenv(VARIABLE, "{")
    with pytest.raises(InvalidSettings, match=f"{VARIABLE}: line 1"):
        KeySource(None).read()


RULES = TokenRules(issuer="https://issuer.example", audience="models")


def subject(name):
    return SubjectEntry(subject=name, principal="alice", scopes=["infer"], models=["*"])


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        (
            {"keys": [entry(id="one", key=new_key("a"))]},
            {"keys": [entry(id="two", key=new_key("b"))]},
            None,
        ),
        (
            {"keys": [entry(id="one", key="same")]},
            {"keys": [entry(id="two", key="same")]},
            '"one" and "two" are the same key',
        ),
        (
            {"subjects": [subject("client.example")]},
            {"subjects": [subject("client.example")]},
            'subject "client.example" is there twice',
        ),
        ({"jwt": RULES}, {"jwt": RULES}, 'field "jwt" is there twice'),
        ({"jwt": RULES}, {}, None),
        ({}, {"jwt": RULES}, None),
    ],
)
def test_duplicate_name_in_file_and_environment_is_refused(path, monkeypatch, one, other, message):
    file, variable = (Document(**{"keys": []} | fields) for fields in (one, other))
    path.write_bytes(serialize(file))
    monkeypatch.setenv(VARIABLE, serialize(variable).decode())
    if message is None:
        both = KeySource(path).read()
        assert both.keys == [*file.keys, *variable.keys]
        assert both.jwt == (file.jwt or variable.jwt)
        return
    with pytest.raises(InvalidSettings) as refused:
        KeySource(path).read()
    assert refused.value.message == f"{path} and {VARIABLE}: {message}"
    assert not any(key.sha256 in refused.value.message for key in file.keys)


def test_edit_follows_links(path, tmp_path):
    link = tmp_path / "link.json"
    write(path, "a")
    link.symlink_to(path)
    edit(link, lambda document: document.keys.clear())
    assert link.is_symlink()
    assert KeySource(path).read().keys == []


def test_crash_keeps_old_file(path, tmp_path, monkeypatch):
    write(path, "a")
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(OSError, match="full"):
        replace(path, b"new")
    assert path.read_bytes() == before
    assert [*tmp_path.iterdir()] == [path]


def test_concurrent_edits_lose_nothing(tmp_path):
    path = tmp_path / "keys.json"

    def add(i):
        edit(path, lambda document: document.keys.append(entry(id=f"k{i}")))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(40)))
    assert {key.id for key in read_keys(path).keys} == {f"k{i}" for i in range(40)}


def test_failed_edit_keeps_file(tmp_path):
    path = tmp_path / "keys.json"
    edit(path, lambda document: document.keys.append(entry()))
    before = path.read_bytes()
    with pytest.raises(InvalidSettings, match="there twice"):
        edit(path, lambda document: document.keys.append(entry()))
    assert path.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == [".keys.json.lock", "keys.json"]
