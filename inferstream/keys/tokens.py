"""Signed tokens (JWT) of an issuer that the document of keys names."""

import json
import logging
import time
from base64 import urlsafe_b64decode
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgspec

from ..errors import InvalidSettings, MissingExtra
from .document import TOKEN_KEY, TokenRules, check_name
from .errors import Unauthenticated
from .principal import Principal, known_scopes

try:
    import jwt
except ModuleNotFoundError as error:
    raise MissingExtra("a document of keys with `jwt`", "jwt", error) from None

logger = logging.getLogger("inferstream.keys")

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Signatures by a private key of the issuer. With a shared secret, whoever checks tokens could make them."""

KINDS = ("RSA", "EC", "OKP")
"""Types of keys with a public half. PyJWT before 2.13 takes a key of another type under each of these algorithms."""

_PRIVATE = ("d", "p", "q", "dp", "dq", "qi", "oth")
"""Fields of the private half of a key, by which none is verified."""

LEEWAY = 30
"""Seconds that the clocks of issuer and server may differ."""

REFRESH = 300.0
"""Seconds from one look at the issuer's keys to the next."""

MOST_TOKEN = 16_384
"""Characters of a token."""

MOST_HEADER = 1024
"""Characters of the header of a token, as it is sent. It is parsed before a signature is checked."""

_TIMEOUT = 10.0
"""Seconds that an issuer may take."""

_MOST_BYTES = 2**20
"""Bytes of an answer of an issuer."""

_FAULTS = (
    OSError,
    HTTPException,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    RecursionError,
    jwt.PyJWTError,
)
"""What an issuer that is down or answers nonsense leads to."""


class TokenAuthenticator:
    """Tokens of one issuer. Raises InvalidSettings if its keys cannot be had at the start."""

    def __init__(self, rules: TokenRules) -> None:
        self.rules = rules
        self._keys: dict[str | None, Any] = {}
        self._next = 0.0
        self._fault = ""
        try:
            self._load()
        except _FAULTS as error:
            raise InvalidSettings(f"jwt: no keys of {rules.issuer}: {_line(error)}") from None

    def refresh(self) -> None:
        """Load the keys of the issuer again from time to time; the old ones stay if that fails. For a thread."""
        if time.monotonic() < self._next:
            return
        try:
            self._load()
            self._fault = ""
        except _FAULTS as error:
            self._next = time.monotonic() + REFRESH
            if (fault := _line(error)) != self._fault:
                self._fault = fault
                logger.error("jwt: the keys of %s stay as they were: %s", self.rules.issuer, fault)

    def authenticate(self, secret: str | None, identities: Sequence[str] = ()) -> Principal | None:
        """The principal of a token; None for what is no token. Raises Unauthenticated."""
        if secret is None or not secret.startswith("eyJ"):
            return None
        if len(secret) > MOST_TOKEN:
            raise Unauthenticated(f"The token has more than {MOST_TOKEN} characters.")
        if len(header := secret.partition(".")[0]) > MOST_HEADER:
            raise Unauthenticated(f"The header of the token has more than {MOST_HEADER} characters.")
        try:
            key = self._keys[json.loads(urlsafe_b64decode(f"{header}==")).get("kid")]
            claims = jwt.decode(
                secret,
                key,
                algorithms=ALGORITHMS,
                audience=self.rules.audience,
                issuer=self.rules.issuer,
                leeway=LEEWAY,
                options={"require": ["exp", "iss", "aud"]},
            )
            return self._principal(claims)
        except (
            jwt.PyJWTError,
            ValueError,
            KeyError,
            TypeError,
            OverflowError,
            RecursionError,
            AttributeError,
        ):
            raise Unauthenticated("The token is not valid.") from None

    def _principal(self, claims: dict[str, Any]) -> Principal:
        name = check_name("principal", msgspec.convert(claims[self.rules.principal_claim], str))
        key = f"{TOKEN_KEY}{name}"
        scopes = [scope for scope in _texts(claims.get(self.rules.scopes_claim)) if scope in known_scopes()]
        models = [check_name("models", each) for each in _texts(claims.get(self.rules.models_claim))]
        principal = name if self.rules.shared_principals else key
        return Principal(principal, key, scopes, models, float(claims["exp"]) + LEEWAY, self.rules.limits)

    def _load(self) -> None:
        rules = self.rules
        if rules.jwks_file is not None:
            text = Path(rules.jwks_file).read_bytes()
        else:
            about = json.loads(fetched(f"{rules.issuer.rstrip('/')}/.well-known/openid-configuration"))
            if about["issuer"] != rules.issuer:
                raise ValueError("its configuration names another issuer")
            text = fetched(about["jwks_uri"])
        keys = {"keys": [_public(key) for key in json.loads(text)["keys"] if _verifies(key)]}
        self._keys = {key.key_id: key for key in jwt.PyJWKSet.from_dict(keys).keys}
        self._next = time.monotonic() + REFRESH


def fetched(url: str) -> bytes:
    """The answer to a GET over TLS. Raises OSError, and ValueError for another scheme."""
    if not url.startswith("https://"):
        raise ValueError(f"{url} is not https")
    with urlopen(url, timeout=_TIMEOUT) as answer:
        if not answer.url.startswith("https://"):
            raise ValueError(f"{url} leads to {answer.url}, which is not https")
        return bytes(answer.read(_MOST_BYTES))


def _verifies(key: dict[str, Any]) -> bool:
    """Whether a key of the issuer is for signatures that nobody can make who can check them."""
    return key.get("kty") in KINDS and key.get("use") != "enc"


def _public(key: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in key.items() if name not in _PRIVATE}


def _texts(claim: object) -> list[str]:
    """A claim that is a list, or a text with spaces; empty without the claim."""
    if claim is None:
        return []
    return claim.split() if isinstance(claim, str) else msgspec.convert(claim, list[str])


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
