"""Keys and certificates become principals."""

import pytest

from inferstream.keys import authenticator
from inferstream.keys.authenticator import KeyAuthenticator
from inferstream.keys.document import Document, SubjectEntry
from inferstream.keys.errors import Unauthenticated
from inferstream.keys.secret import new_key

from .documents import entry

KEY = new_key("abc")


def keys(**fields):
    return KeyAuthenticator(Document(keys=[entry(key=KEY, **fields)]))


def test_a_key_has_a_principal():
    principal = keys().authenticate(KEY)
    assert (principal.name, principal.key) == ("alice", "abc")


@pytest.mark.parametrize(
    "wrong",
    [new_key("abc"), new_key("xyz"), KEY[:-1], f"{KEY}A", KEY.upper(), "", "ifs_", "\udc80", "x" * 5000],
    ids=range(9),
)
def test_anything_else_is_refused_in_the_same_words(wrong):
    with pytest.raises(Unauthenticated) as caught:
        keys().authenticate(wrong)
    assert caught.value.message == Unauthenticated().message


def test_an_unknown_id_costs_a_hash_and_a_comparison_too(monkeypatch):
    compared = []

    def compare(one, other):
        compared.append((len(one), len(other)))
        return one == other

    monkeypatch.setattr(authenticator, "compare_digest", compare)
    for wrong in (new_key("abc"), new_key("xyz")):
        with pytest.raises(Unauthenticated):
            keys().authenticate(wrong)
    assert compared == [(32, 32), (32, 32)]


def test_nobody_is_known_by_the_digest_of_unknown_ids(monkeypatch):
    monkeypatch.setattr(authenticator, "digest_of", lambda key: bytes(32))
    with pytest.raises(Unauthenticated):
        keys().authenticate(new_key("xyz"))


def test_a_key_expires(monkeypatch):
    one = keys(expires="2030-01-31T00:00:00Z")
    monkeypatch.setattr(authenticator, "time", lambda: 1896047999.0)
    assert one.authenticate(KEY).name == "alice"
    monkeypatch.setattr(authenticator, "time", lambda: 1896048000.0)
    with pytest.raises(Unauthenticated, match="expired"):
        one.authenticate(KEY)


def test_other_keys_take_effect_at_once():
    one = keys()
    one.replace(Document(keys=[]))
    with pytest.raises(Unauthenticated):
        one.authenticate(KEY)


def test_a_subject_is_a_principal_where_there_is_no_key():
    subject = SubjectEntry(subject="batch.example", principal="batch", scopes=["infer"], models=["*"])
    one = KeyAuthenticator(Document(keys=[entry(key=KEY)], subjects=[subject]))
    principal = one.authenticate(None, ["other", "batch.example"])
    assert (principal.name, principal.key) == ("batch", "subject:batch.example")
    assert one.authenticate(None, ["other"]) is None
    assert one.authenticate(KEY, ["batch.example"]).name == "alice"
    with pytest.raises(Unauthenticated):
        one.authenticate(new_key("abc"), ["batch.example"])
