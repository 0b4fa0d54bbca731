"""Masks keys and credentials in logs and recorded requests."""

import re
from collections.abc import Iterable
from urllib.parse import unquote, unquote_plus

PREFIX = "ifs_"
"""The prefix of each key."""

_KEY = re.compile(PREFIX + r"[A-Za-z0-9._-]{40,}")

_NAMES = (
    "key api-key apikey subscription-key ocp-apim-subscription-key functions-key token auth-token "
    "access-token id-token refresh-token csrf-token vault-token private-token amz-security-token "
    "amz-signature amz-credential awsaccesskeyid goog-api-key goog-signature goog-credential "
    "goog-iap-jwt-assertion forwarded-access-token secret client-secret password sig signature "
    "authorization proxy-authorization cookie set-cookie"
)
SECRETS = frozenset(prefix + name for prefix in ("", "x-") for name in _NAMES.split())
"""Names of headers and query parameters whose values are credentials, normalized by `plain_name`."""


def plain_name(name: str) -> str:
    """Normalize the name of a header or parameter for a look-up in `SECRETS`."""
    return name.lower().replace("_", "-").removesuffix("-bin")


def mask_keys(text: str) -> str:
    """Return a string in which all keys are masked, for logs and messages."""
    return _KEY.sub(f"{PREFIX}***", text) if PREFIX in text else text


class CredentialMask:
    """Masks credentials in recorded requests.

    These are keys, and the values of headers and parameters with certain names.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        """`names` are additional names, in lower case."""
        self.names = SECRETS.union(names)

    def hides(self, name: str) -> bool:
        """Whether a header or parameter of this name contains a credential."""
        return name.lower() in self.names or plain_name(name) in self.names

    def mask_target(self, target: str) -> str:
        """Return a request target with all keys, and the values of credentials in its query, masked."""
        path, mark, query = target.partition("?")
        if (plain := unquote(path)) != mask_keys(plain):
            path = mask_keys(plain)
        return path + mark + "".join(map(self._mask_parameter, re.split("([&;])", query)))

    def _mask_parameter(self, parameter: str) -> str:
        name, equals, _ = parameter.partition("=")
        plain = unquote_plus(parameter)
        if equals and self.hides(unquote_plus(name)):
            return f"{name}=***"
        return mask_keys(plain) if plain != mask_keys(plain) else parameter
