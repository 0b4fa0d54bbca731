"""Tokens by the rules of a document that changes."""

import logging
import threading

import msgspec
import pytest

from inferstream.errors import InvalidSettings
from inferstream.keys import renewal as renewal_module
from inferstream.keys import tokens
from inferstream.keys.errors import Unauthenticated
from inferstream.keys.renewal import TokenRenewal

from .test_tokens import OTHER, jwks, token
from .test_tokens import rules as rules


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.WARNING, "inferstream.keys")
    return lambda: caplog.messages


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """The next attempt need not wait."""
    monkeypatch.setattr(renewal_module, "PAUSE", 0.0)


@pytest.fixture
def others(rules, tmp_path):
    """Rules whose keys are not there yet."""
    return msgspec.structs.replace(rules, jwks_file=str(tmp_path / "others.json"))


async def test_rules_come_and_go(rules):
    renewal = TokenRenewal(None)
    await renewal.renew()
    assert renewal.current is None
    renewal.want(rules)
    await renewal.renew()
    assert renewal.current.authenticate(token()).name == "jwt:alice"
    loaded = renewal.current
    await renewal.renew()
    assert renewal.current is loaded
    renewal.want(None)
    assert renewal.current is None


async def test_old_tokens_count_until_new_rules_are_loaded(rules, others, tmp_path, said):
    renewal = TokenRenewal(rules)
    renewal.want(others)
    for _ in range(3):
        await renewal.renew()
        renewal.current.authenticate(token())
    assert len(said()) == 1
    assert "the tokens stay as they were: jwt: no keys of https://issuer.example" in said()[0]
    (tmp_path / "others.json").write_text(jwks(OTHER, "two"))
    await renewal.renew()
    renewal.current.authenticate(token(OTHER, "two"))
    with pytest.raises(Unauthenticated):
        renewal.current.authenticate(token())
    assert said()[1:] == ["jwt: the tokens are loaded again"]


async def test_an_issuer_that_fails_is_left_alone_for_a_while_but_not_other_rules(
    rules, others, monkeypatch, tmp_path
):
    monkeypatch.setattr(renewal_module, "PAUSE", 3600.0)
    renewal = TokenRenewal(rules)
    renewal.want(others)
    await renewal.renew()
    (tmp_path / "others.json").write_text(jwks(OTHER, "two"))
    await renewal.renew()
    assert renewal.current.rules == rules
    renewal.want(msgspec.structs.replace(others, audience="another"))
    await renewal.renew()
    assert renewal.current.rules.audience == "another"


async def test_what_nobody_expects_stops_no_renewal(rules, others, monkeypatch, said):
    renewal = TokenRenewal(rules)
    load = tokens.TokenAuthenticator
    monkeypatch.setattr(tokens, "TokenAuthenticator", lambda rules: 1 / 0)
    renewal.want(others)
    await renewal.renew()
    await renewal.renew()
    assert len(said()) == 1
    assert "the tokens stay as they were: ZeroDivisionError" in said()[0]
    monkeypatch.setattr(tokens, "TokenAuthenticator", load)
    renewal.want(rules)
    await renewal.renew()
    assert said()[1:] == ["jwt: the tokens are loaded again"]


async def test_rules_that_were_taken_back_while_they_loaded_do_not_count(rules, tmp_path, monkeypatch):
    renewal = TokenRenewal(None)
    load = tokens.TokenAuthenticator

    def slow(rules):
        renewal.want(None)
        return load(rules)

    monkeypatch.setattr(tokens, "TokenAuthenticator", slow)
    renewal.want(rules)
    await renewal.renew()
    assert renewal.current is None


async def test_the_loop_runs_on_while_an_issuer_is_asked(rules, monkeypatch):
    threads = []
    load = tokens.TokenAuthenticator
    monkeypatch.setattr(
        tokens, "TokenAuthenticator", lambda rules: threads.append(threading.current_thread()) or load(rules)
    )
    renewal = TokenRenewal(None)
    renewal.want(rules)
    await renewal.renew()
    assert threads != [threading.main_thread()]


def test_rules_that_cannot_be_loaded_end_the_start(others):
    with pytest.raises(InvalidSettings, match="no keys of"):
        TokenRenewal(others)
