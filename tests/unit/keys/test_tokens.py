"""Signed tokens become principals."""

import json
import time

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from inferstream.errors import InvalidSettings
from inferstream.keys import tokens
from inferstream.keys.document import TokenRules, parsed
from inferstream.keys.errors import Unauthenticated
from inferstream.keys.principal import KeyLimits
from inferstream.keys.tokens import TokenAuthenticator

ISSUER = "https://issuer.example"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def jwks(key=KEY, kid="one"):
    return json.dumps(
        {"keys": [{**json.loads(RSAAlgorithm.to_jwk(key.public_key())), "kid": kid, "alg": "RS256"}]}
    )


def token(key=KEY, kid="one", algorithm="RS256", **claims):
    claims = {
        "iss": ISSUER,
        "aud": "models",
        "sub": "alice",
        "exp": time.time() + 600,
        "scope": "infer openid stream",
        "models": ["llm-*"],
        **claims,
    }
    claims = {name: claim for name, claim in claims.items() if claim is not None}
    return jwt.encode(claims, key, algorithm, {"kid": kid})


@pytest.fixture
def rules(tmp_path):
    (tmp_path / "jwks.json").write_text(jwks())
    limits = KeyLimits(in_flight=2)
    return TokenRules(issuer=ISSUER, audience="models", jwks_file=str(tmp_path / "jwks.json"), limits=limits)


def test_claims_become_a_principal(rules):
    principal = TokenAuthenticator(rules).authenticate(token())
    assert (principal.name, principal.key, principal.scopes) == (
        "alice",
        "jwt:alice",
        {"infer", "stream", None},
    )
    assert principal.sees("llm-1")
    assert not principal.sees("other")
    assert principal.limits.in_flight == 2
    assert principal.expires < float("inf")


@pytest.mark.parametrize(
    "made",
    [
        lambda: token(OTHER),
        lambda: token(kid="two"),
        lambda: token(kid=""),
        lambda: token(iss="https://other.example"),
        lambda: token(aud="others"),
        lambda: token(aud=None),
        lambda: token(exp=time.time() - 3600),
        lambda: token(exp=None),
        lambda: token(nbf=time.time() + 3600),
        lambda: token(sub=None),
        lambda: token(sub="a\nb"),
        lambda: token(models=[1]),
        lambda: token("a" * 64, algorithm="HS256"),
        lambda: token(None, algorithm="none"),
        lambda: token()[:-8] + "AAAAAAAA",
        lambda: "eyJ",
        lambda: "eyJ" + "a" * 20_000,
    ],
)
def test_anything_else_is_refused(rules, made):
    with pytest.raises(Unauthenticated, match=r"The token is not valid\."):
        TokenAuthenticator(rules).authenticate(made())


def test_a_token_without_claims_allows_nothing(rules):
    principal = TokenAuthenticator(rules).authenticate(token(scope=None, models=None))
    assert principal.scopes == {None}
    assert not principal.sees("llm-1")


def test_keys_are_no_tokens(rules):
    assert TokenAuthenticator(rules).authenticate("ifs_abc_x") is None
    assert TokenAuthenticator(rules).authenticate(None) is None


def test_an_issuer_of_openid_connect_is_asked(monkeypatch):
    answers = {
        f"{ISSUER}/.well-known/openid-configuration": {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys"},
        f"{ISSUER}/keys": json.loads(jwks()),
    }
    monkeypatch.setattr(tokens, "fetched", lambda url: json.dumps(answers[url]).encode())
    rules = TokenRules(issuer=ISSUER, audience="models")
    assert TokenAuthenticator(rules).authenticate(token()).name == "alice"
    answers[f"{ISSUER}/.well-known/openid-configuration"]["issuer"] = "https://other.example"
    with pytest.raises(InvalidSettings, match="names another issuer"):
        TokenAuthenticator(rules)


def test_keys_are_fetched_over_tls_alone():
    with pytest.raises(ValueError, match="is not https"):
        tokens.fetched("http://issuer.example/keys")
    with pytest.raises(ValueError, match="is not https"):
        tokens.fetched("file:///etc/passwd")


def test_new_keys_of_the_issuer_are_taken_and_broken_ones_are_not(rules, tmp_path, monkeypatch, caplog):
    one = TokenAuthenticator(rules)
    (tmp_path / "jwks.json").write_text(jwks(OTHER, "two"))
    one.refresh()
    one.authenticate(token())
    monkeypatch.setattr(tokens, "REFRESH", 0.0)
    one._next = 0.0
    one.refresh()
    one.authenticate(token(OTHER, "two"))
    (tmp_path / "jwks.json").write_text("{")
    one.refresh()
    one.refresh()
    one.authenticate(token(OTHER, "two"))
    assert len(caplog.messages) == 1


def test_an_issuer_without_keys_ends_the_start(rules, tmp_path):
    (tmp_path / "jwks.json").unlink()
    with pytest.raises(InvalidSettings, match=r"jwt: no keys of https://issuer\.example: "):
        TokenAuthenticator(rules)


def test_rules_are_in_the_document():
    document = {"version": 1, "keys": [], "jwt": {"issuer": ISSUER, "audience": "models"}}
    assert parsed(json.dumps(document), "f").jwt == TokenRules(issuer=ISSUER, audience="models")
    document["jwt"]["issuer"] = "http://issuer.example"
    with pytest.raises(InvalidSettings, match="must begin with https"):
        parsed(json.dumps(document), "f")
