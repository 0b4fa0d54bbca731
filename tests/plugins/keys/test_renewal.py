"""Tokens by the rules of a document that changes."""

import logging
import threading

import msgspec
import pytest

from inferstream.errors import InvalidSettings
from inferstream.plugins.keys import renewal as renewal_module
from inferstream.plugins.keys import tokens
from inferstream.plugins.keys.errors import Unauthenticated
from inferstream.plugins.keys.renewal import TokenRenewal
from tests.plugins.keys.test_tokens import OTHER, jwks, token
from tests.plugins.keys.test_tokens import rules as rules


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


async def test_rules_can_be_added_and_removed(rules):
    renewal = TokenRenewal(None)
    await renewal.renew()
    assert renewal.current is None
    renewal.set_rules(rules)
    await renewal.renew()
    assert renewal.current.authenticate(token()).name == "jwt:alice"
    loaded = renewal.current
    await renewal.renew()
    assert renewal.current is loaded
    renewal.set_rules(None)
    assert renewal.current is None


async def test_old_tokens_are_valid_until_new_rules_load(rules, others, tmp_path, said):
    renewal = TokenRenewal(rules)
    renewal.set_rules(others)
    for _ in range(3):
        await renewal.renew()
        renewal.current.authenticate(token())
    assert len(said()) == 1
    assert "the previous settings stay in use: jwt: no keys of https://issuer.example" in said()[0]
    (tmp_path / "others.json").write_text(jwks(OTHER, "two"))
    await renewal.renew()
    renewal.current.authenticate(token(OTHER, "two"))
    with pytest.raises(Unauthenticated):
        renewal.current.authenticate(token())
    assert said()[1:] == ["jwt: token settings reloaded"]


async def test_failing_issuer_is_retried_later(rules, others, monkeypatch, tmp_path):
    monkeypatch.setattr(renewal_module, "PAUSE", 3600.0)
    renewal = TokenRenewal(rules)
    renewal.set_rules(others)
    await renewal.renew()
    (tmp_path / "others.json").write_text(jwks(OTHER, "two"))
    await renewal.renew()
    assert renewal.current.rules == rules
    renewal.set_rules(msgspec.structs.replace(others, audience="another"))
    await renewal.renew()
    assert renewal.current.rules.audience == "another"


async def test_unexpected_error_does_not_stop_renewal(rules, others, monkeypatch, said):
    renewal = TokenRenewal(rules)
    load = tokens.TokenAuthenticator
    monkeypatch.setattr(tokens, "TokenAuthenticator", lambda rules: 1 / 0)
    renewal.set_rules(others)
    await renewal.renew()
    await renewal.renew()
    assert len(said()) == 1
    assert "the previous settings stay in use: ZeroDivisionError" in said()[0]
    monkeypatch.setattr(tokens, "TokenAuthenticator", load)
    renewal.set_rules(rules)
    await renewal.renew()
    assert said()[1:] == ["jwt: token settings reloaded"]


async def test_rules_withdrawn_during_load_are_ignored(rules, tmp_path, monkeypatch):
    renewal = TokenRenewal(None)
    load = tokens.TokenAuthenticator

    def slow(rules):
        renewal.set_rules(None)
        return load(rules)

    monkeypatch.setattr(tokens, "TokenAuthenticator", slow)
    renewal.set_rules(rules)
    await renewal.renew()
    assert renewal.current is None


async def test_event_loop_runs_during_issuer_request(rules, monkeypatch):
    threads = []
    load = tokens.TokenAuthenticator
    monkeypatch.setattr(
        tokens, "TokenAuthenticator", lambda rules: threads.append(threading.current_thread()) or load(rules)
    )
    renewal = TokenRenewal(None)
    renewal.set_rules(rules)
    await renewal.renew()
    assert threads != [threading.main_thread()]


def test_unloadable_rules_abort_startup(others):
    with pytest.raises(InvalidSettings, match="no keys of"):
        TokenRenewal(others)
