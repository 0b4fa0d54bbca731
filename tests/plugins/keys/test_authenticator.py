"""Keys and certificates become principals."""

import pytest

from inferstream.plugins.keys import authenticator
from inferstream.plugins.keys.authenticator import KeyAuthenticator
from inferstream.plugins.keys.document import Document, SubjectEntry
from inferstream.plugins.keys.errors import Unauthenticated
from inferstream.plugins.keys.secret import new_key
from tests.plugins.keys.documents import entry

KEY = new_key("abc")


def keys(**fields):
    return KeyAuthenticator(Document(keys=[entry(key=KEY, **fields)]))


def test_key_has_principal():
    principal = keys().authenticate(KEY)
    assert (principal.name, principal.key) == ("alice", "abc")


@pytest.mark.parametrize(
    "wrong",
    [new_key("abc"), new_key("xyz"), KEY[:-1], f"{KEY}A", KEY.upper(), "", "ifs_", "\udc80", "x" * 5000],
    ids=range(9),
)
def test_all_other_keys_are_refused_with_same_message(wrong):
    with pytest.raises(Unauthenticated) as caught:
        keys().authenticate(wrong)
    assert caught.value.message == Unauthenticated().message


def test_unknown_id_takes_same_time(monkeypatch):
    compared = []

    def compare(one, other):
        compared.append((len(one), len(other)))
        return one == other

    monkeypatch.setattr(authenticator, "compare_digest", compare)
    for wrong in (new_key("abc"), new_key("xyz")):
        with pytest.raises(Unauthenticated):
            keys().authenticate(wrong)
    assert compared == [(32, 32), (32, 32)]


def test_placeholder_digest_matches_no_key(monkeypatch):
    monkeypatch.setattr(authenticator, "hash_key", lambda key: bytes(32))
    with pytest.raises(Unauthenticated):
        keys().authenticate(new_key("xyz"))


def test_key_expires(monkeypatch):
    one = keys(expires="2030-01-31T00:00:00Z")
    monkeypatch.setattr(authenticator, "time", lambda: 1896047999.0)
    assert one.authenticate(KEY).name == "alice"
    monkeypatch.setattr(authenticator, "time", lambda: 1896048000.0)
    with pytest.raises(Unauthenticated, match="expired"):
        one.authenticate(KEY)


def test_changed_keys_take_effect_at_once():
    one = keys()
    one.replace(Document(keys=[]))
    with pytest.raises(Unauthenticated):
        one.authenticate(KEY)


def test_subject_is_a_principal_without_key():
    subject = SubjectEntry(subject="batch.example", principal="batch", scopes=["infer"], models=["*"])
    one = KeyAuthenticator(Document(keys=[entry(key=KEY)], subjects=[subject]))
    principal = one.authenticate(None, ["other", "batch.example"])
    assert (principal.name, principal.key) == ("batch", "subject:batch.example")
    assert one.authenticate(None, ["other"]) is None
    assert one.authenticate(KEY, ["batch.example"]).name == "alice"
    with pytest.raises(Unauthenticated):
        one.authenticate(new_key("abc"), ["batch.example"])
