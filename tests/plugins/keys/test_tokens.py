"""Signed tokens become principals."""

import base64
import hmac
import json
import time

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from inferstream.errors import InvalidSettings
from inferstream.plugins.keys import tokens
from inferstream.plugins.keys.document import TokenRules, parse_document
from inferstream.plugins.keys.errors import Unauthenticated
from inferstream.plugins.keys.principal import KeyLimits
from inferstream.plugins.keys.tokens import TokenAuthenticator

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


def encoded(text):
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


@pytest.fixture
def rules(tmp_path):
    (tmp_path / "jwks.json").write_text(jwks())
    limits = KeyLimits(in_flight=2)
    return TokenRules(issuer=ISSUER, audience="models", jwks_file=str(tmp_path / "jwks.json"), limits=limits)


def test_claims_become_principal(rules):
    principal = TokenAuthenticator(rules).authenticate(token())
    assert (principal.name, principal.key, principal.scopes) == (
        "jwt:alice",
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
        lambda: token(exp=10**400),
        lambda: token(exp=float("inf")),
        lambda: token(nbf=float("inf")),
        lambda: token(exp=float("nan")),
        lambda: encoded('{"a":' + "[" * 9000) + "." + token().partition(".")[2],
        lambda: token()[:-8] + "AAAAAAAA",
        lambda: "eyJ",
        lambda: "eyJ" + "a" * 20_000,
    ],
)
def test_all_other_tokens_are_refused(rules, made):
    with pytest.raises(
        Unauthenticated, match=r"The token is not valid\.|The (header of the )?token has more than"
    ):
        TokenAuthenticator(rules).authenticate(made())


def test_long_header_is_not_parsed(rules, monkeypatch):
    padding = "x" * (
        tokens.MAX_HEADER * 3 // 4 - len('{"alg": "RS256", "typ": "JWT", "kid": "one", "x": ""}')
    )
    fitting = jwt.encode(
        jwt.decode(token(), options={"verify_signature": False}), KEY, "RS256", {"kid": "one", "x": padding}
    )
    assert TokenAuthenticator(rules).authenticate(fitting).name == "jwt:alice"
    longer = encoded('{"alg": "RS256", "typ": "JWT", "kid": "one", "x": "' + padding + 'xxxxxx"}')
    one = TokenAuthenticator(rules)
    monkeypatch.setattr(tokens, "urlsafe_b64decode", lambda text: pytest.fail("it is decoded"))
    monkeypatch.setattr(jwt, "decode", lambda *_, **__: pytest.fail("it is decoded"))
    with pytest.raises(Unauthenticated, match="The header of the token has more than 1024 characters"):
        one.authenticate(longer + "." + token().partition(".")[2])
    with pytest.raises(Unauthenticated, match="The token has more than 16384 characters"):
        one.authenticate(token().partition(".")[0] + "." + "x" * tokens.MAX_TOKEN)


@pytest.mark.parametrize(
    "header", ["[1]", "1", '"kid"', "null", "{}", '{"kid": ["one"]}', '{"kid": {"a": 1}}', "[" * 700]
)
def test_malformed_header_is_refused(rules, header):
    with pytest.raises(Unauthenticated):
        TokenAuthenticator(rules).authenticate("eyJ" + encoded(header) + "." + token().partition(".")[2])
    with pytest.raises(Unauthenticated):
        TokenAuthenticator(rules).authenticate(
            encoded(header).replace(encoded(header)[:3], "eyJ") + "." + token().partition(".")[2]
        )


def test_token_principal_equals_key_principal_if_configured(rules):
    shared = msgspec.structs.replace(rules, shared_principals=True)
    principal = TokenAuthenticator(shared).authenticate(token())
    assert (principal.name, principal.key) == ("alice", "jwt:alice")


def test_non_signing_keys_are_ignored(rules, tmp_path):
    [good] = json.loads(jwks())["keys"]
    [other] = json.loads(jwks(OTHER))["keys"]
    shared = {"kty": "oct", "kid": "shared", "k": encoded("s" * 64)}
    keys = [{**other, "kid": "enc", "use": "enc"}, shared, {**other, "use": "enc"}, {"kid": "none"}]
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": [good, *keys]}))
    tokens_of_one = TokenAuthenticator(rules)
    assert [*tokens_of_one._keys] == ["one"]
    tokens_of_one.authenticate(token())
    forged = encoded(json.dumps({"alg": "RS256", "kid": "shared"})) + "." + token().split(".")[1]
    mac = hmac.digest(b"s" * 64, forged.encode(), "sha256")
    for refused in (
        f"{forged}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}",
        token(OTHER, "enc"),
        token(OTHER),
    ):
        with pytest.raises(Unauthenticated):
            tokens_of_one.authenticate(refused)
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": keys}))
    with pytest.raises(InvalidSettings, match="no keys of"):
        TokenAuthenticator(rules)


def test_public_key_of_private_key_verifies(rules, tmp_path):
    private = {**json.loads(RSAAlgorithm.to_jwk(KEY)), "kid": "one"}
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": [private]}))
    assert TokenAuthenticator(rules).authenticate(token()).name == "jwt:alice"


@pytest.mark.parametrize("text", ["[]", "{}", '{"keys": 1}', '{"keys": [1]}', "[" * 100_000])
def test_invalid_issuer_response_aborts_startup(rules, tmp_path, text):
    (tmp_path / "jwks.json").write_text(text)
    with pytest.raises(InvalidSettings, match="no keys of"):
        TokenAuthenticator(rules)


def test_token_without_claims_has_no_permissions(rules):
    principal = TokenAuthenticator(rules).authenticate(token(scope=None, models=None))
    assert principal.scopes == {None}
    assert not principal.sees("llm-1")


def test_api_keys_are_not_tokens(rules):
    assert TokenAuthenticator(rules).authenticate("ifs_abc_x") is None
    assert TokenAuthenticator(rules).authenticate(None) is None


def test_openid_connect_issuer_is_discovered(monkeypatch):
    answers = {
        f"{ISSUER}/.well-known/openid-configuration": {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys"},
        f"{ISSUER}/keys": json.loads(jwks()),
    }
    monkeypatch.setattr(tokens, "fetch", lambda url: json.dumps(answers[url]).encode())
    rules = TokenRules(issuer=ISSUER, audience="models")
    assert TokenAuthenticator(rules).authenticate(token()).name == "jwt:alice"
    answers[f"{ISSUER}/.well-known/openid-configuration"]["issuer"] = "https://other.example"
    with pytest.raises(InvalidSettings, match="names another issuer"):
        TokenAuthenticator(rules)


def test_keys_are_fetched_only_over_tls():
    with pytest.raises(ValueError, match="is not https"):
        tokens.fetch("http://issuer.example/keys")
    with pytest.raises(ValueError, match="is not https"):
        tokens.fetch("file:///etc/passwd")


def test_valid_new_issuer_keys_replace_old_ones(rules, tmp_path, monkeypatch, caplog):
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


def test_issuer_without_keys_aborts_startup(rules, tmp_path):
    (tmp_path / "jwks.json").unlink()
    with pytest.raises(InvalidSettings, match=r"jwt: no keys of https://issuer\.example: "):
        TokenAuthenticator(rules)


def test_rules_are_read_from_document():
    document = {"version": 1, "keys": [], "jwt": {"issuer": ISSUER, "audience": "models"}}
    assert parse_document(json.dumps(document), "f").jwt == TokenRules(issuer=ISSUER, audience="models")
    document["jwt"]["issuer"] = "http://issuer.example"
    with pytest.raises(InvalidSettings, match="must begin with https"):
        parse_document(json.dumps(document), "f")
