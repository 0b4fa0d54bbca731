"""Authentication with signed tokens (JWT) from a configured issuer."""

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

from inferstream.errors import InvalidSettings, MissingExtra

from .document import TOKEN_KEY, TokenRules, check_name
from .errors import Unauthenticated
from .principal import Principal, known_scopes

try:
    import jwt
except ModuleNotFoundError as error:
    raise MissingExtra("a document of keys with `jwt`", "jwt", error) from None

logger = logging.getLogger("inferstream.keys")

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Asymmetric algorithms only. With a shared secret, every verifier could also issue tokens."""

KINDS = ("RSA", "EC", "OKP")
"""Asymmetric key types. PyJWT before 2.13 accepts keys of other types for these algorithms."""

_PRIVATE = ("d", "p", "q", "dp", "dq", "qi", "oth")
"""Fields of the private half of a key, which verification does not need."""

LEEWAY = 30
"""Allowed clock difference between the issuer and the server in seconds."""

REFRESH = 300.0
"""Seconds between fetches of the issuer's keys."""

MAX_TOKEN = 16_384
"""Maximum length of a token in characters."""

MAX_HEADER = 1024
"""Maximum length of an encoded token header in characters. It is parsed before the signature is checked."""

_TIMEOUT = 10.0
"""Timeout of requests to the issuer in seconds."""

_MAX_BYTES = 2**20
"""Maximum size of an issuer's response in bytes."""

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
"""Errors from an issuer that is down or returns invalid data."""


class TokenAuthenticator:
    """Authenticates tokens of one issuer.

    Raises InvalidSettings if its keys cannot be loaded at startup.
    """

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
        """Fetch the issuer's keys again when they are due.

        If this fails, the old keys stay in use. Call it in a thread.
        """
        if time.monotonic() < self._next:
            return
        try:
            self._load()
            self._fault = ""
        except _FAULTS as error:
            self._next = time.monotonic() + REFRESH
            if (fault := _line(error)) != self._fault:
                self._fault = fault
                logger.error(
                    "jwt: keys of %s not reloaded, the previous keys stay in use: %s",
                    self.rules.issuer,
                    fault,
                )

    def authenticate(self, secret: str | None, identities: Sequence[str] = ()) -> Principal | None:
        """Return the principal of a token.

        Returns None if the secret is not a token. Raises Unauthenticated if it is invalid.
        """
        if secret is None or not secret.startswith("eyJ"):
            return None
        if len(secret) > MAX_TOKEN:
            raise Unauthenticated(f"The token has more than {MAX_TOKEN} characters.")
        if len(header := secret.partition(".")[0]) > MAX_HEADER:
            raise Unauthenticated(f"The header of the token has more than {MAX_HEADER} characters.")
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
            about = json.loads(fetch(f"{rules.issuer.rstrip('/')}/.well-known/openid-configuration"))
            if about["issuer"] != rules.issuer:
                raise ValueError("its configuration names another issuer")
            text = fetch(about["jwks_uri"])
        keys = {"keys": [_remove_private_fields(key) for key in json.loads(text)["keys"] if _can_verify(key)]}
        self._keys = {key.key_id: key for key in jwt.PyJWKSet.from_dict(keys).keys}
        self._next = time.monotonic() + REFRESH


def fetch(url: str) -> bytes:
    """Fetch a URL over TLS. Raises OSError, or ValueError if the URL or a redirect is not https."""
    if not url.startswith("https://"):
        raise ValueError(f"{url} is not https")
    with urlopen(url, timeout=_TIMEOUT) as answer:
        if not answer.url.startswith("https://"):
            raise ValueError(f"{url} leads to {answer.url}, which is not https")
        return bytes(answer.read(_MAX_BYTES))


def _can_verify(key: dict[str, Any]) -> bool:
    """Whether a key of the issuer is asymmetric and can be used for signatures."""
    return key.get("kty") in KINDS and key.get("use") != "enc"


def _remove_private_fields(key: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in key.items() if name not in _PRIVATE}


def _texts(claim: object) -> list[str]:
    """Return the values of a claim that is a list or a space-separated string.

    Empty if the claim is missing.
    """
    if claim is None:
        return []
    return claim.split() if isinstance(claim, str) else msgspec.convert(claim, list[str])


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
