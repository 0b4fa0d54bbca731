"""The file of keys while a server runs."""

import logging
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from inferstream.errors import InvalidSettings
from inferstream.keys import file
from inferstream.keys.document import Document, SubjectEntry, TokenRules, written
from inferstream.keys.file import VARIABLE, KeySource, edit, read_keys, replace
from inferstream.keys.secret import new_key
from inferstream.settings import files

from .documents import entry

OLD = 10**9
"""Seconds since 1970, long ago."""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "keys.json"


def write(path, *ids, time=OLD):
    path.write_bytes(written(Document(keys=[entry(id=id) for id in ids])))
    os.utime(path, (time, time))


def ids(document):
    return [key.id for key in document.keys]


@pytest.fixture
def faults(caplog):
    caplog.set_level(logging.WARNING, "inferstream.keys")
    return lambda: caplog.messages


def test_a_file_is_read_again_when_it_has_changed(path):
    write(path, "a")
    source = KeySource(path)
    assert ids(source.read()) == ["a"]
    assert source.read_again() is None
    write(path, "b", time=OLD + 1)
    assert ids(source.read_again()) == ["b"]
    assert source.read_again() is None


def test_a_file_that_was_replaced_has_changed(path):
    write(path, "a")
    source = KeySource(path)
    source.read()
    replace(path, written(Document(keys=[entry(id="b")])))
    os.utime(path, (OLD, OLD))
    assert ids(source.read_again()) == ["b"]


def test_a_file_that_may_change_within_one_tick_of_its_clock_is_read_again(path, monkeypatch):
    write(path, "a")
    monkeypatch.setattr(file.time, "time_ns", lambda: OLD * 10**9 + 1)
    source = KeySource(path)
    source.read()
    write(path, "b")
    assert ids(source.read_again()) == ["b"]


def test_an_unchanged_file_is_not_opened(path, monkeypatch):
    write(path, "a")
    source = KeySource(path)
    source.read()
    monkeypatch.setattr(file, "read_file", lambda path: pytest.fail("it was opened"))
    assert source.read_again() is None


def test_a_broken_file_keeps_the_keys_and_says_so_once(path, faults):
    write(path, "a")
    source = KeySource(path)
    source.read()
    path.write_text("{")
    for _ in range(3):
        assert source.read_again() is None
    assert len(faults()) == 1
    assert "the keys stay as they were" in faults()[0]
    assert "line 1 column 2" in faults()[0]
    path.unlink()
    for _ in range(3):
        assert source.read_again() is None
    assert len(faults()) == 2
    assert "there is no such file" in faults()[1]
    write(path, "b")
    assert ids(source.read_again()) == ["b"]
    assert "is valid again" in faults()[2]


def test_a_broken_file_ends_the_start(path, tmp_path):
    with pytest.raises(InvalidSettings, match="there is no such file"):
        KeySource(path).read()
    path.write_text("[]")
    with pytest.raises(InvalidSettings, match=r"keys\.json: must hold a JSON object"):
        KeySource(path).read()
    with pytest.raises(InvalidSettings, match="not a regular file"):
        KeySource(tmp_path).read()


@pytest.mark.parametrize(("mode", "said"), [(0o600, 0), (0o664, 0), (0o666, 1)])
def test_a_file_that_all_may_write_is_warned_of(path, faults, mode, said):
    write(path, "a")
    path.chmod(mode)
    assert ids(KeySource(path).read()) == ["a"]
    assert sum("may be written by all users" in each for each in faults()) == said


def test_a_file_has_a_size_limit(path, monkeypatch):
    write(path, "a")
    monkeypatch.setattr(files, "MAX_BYTES", 10)
    with pytest.raises(InvalidSettings, match="larger than 10 bytes"):
        KeySource(path).read()


def test_the_environment_has_keys_too(path, monkeypatch):
    monkeypatch.setenv(VARIABLE, written(Document(keys=[entry(id="env")])).decode())
    assert ids(KeySource(None).read()) == ["env"]
    assert KeySource(None).read_again() is None
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
def test_nobody_is_in_file_and_environment(path, monkeypatch, one, other, message):
    file, variable = (Document(**{"keys": []} | fields) for fields in (one, other))
    path.write_bytes(written(file))
    monkeypatch.setenv(VARIABLE, written(variable).decode())
    if message is None:
        both = KeySource(path).read()
        assert both.keys == [*file.keys, *variable.keys]
        assert both.jwt == (file.jwt or variable.jwt)
        return
    with pytest.raises(InvalidSettings) as refused:
        KeySource(path).read()
    assert refused.value.message == f"{path} and {VARIABLE}: {message}"
    assert not any(key.sha256 in refused.value.message for key in file.keys)


def test_an_edit_follows_links(path, tmp_path):
    link = tmp_path / "link.json"
    write(path, "a")
    link.symlink_to(path)
    edit(link, lambda document: document.keys.clear())
    assert link.is_symlink()
    assert KeySource(path).read().keys == []


def test_a_crash_leaves_the_old_file(path, tmp_path, monkeypatch):
    write(path, "a")
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(OSError, match="full"):
        replace(path, b"new")
    assert path.read_bytes() == before
    assert [*tmp_path.iterdir()] == [path]


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
