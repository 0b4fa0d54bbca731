"""Keys of clients in texts and contents that are written down."""

import re
from urllib.parse import unquote, unquote_plus

PREFIX = "ifs_"
"""How each key begins."""

_KEY = re.compile(PREFIX + r"[A-Za-z0-9._-]{40,}")

_NAMES = (
    "key api-key apikey subscription-key ocp-apim-subscription-key functions-key token auth-token "
    "access-token id-token refresh-token csrf-token vault-token private-token amz-security-token "
    "amz-signature amz-credential awsaccesskeyid goog-api-key goog-signature goog-credential "
    "goog-iap-jwt-assertion forwarded-access-token secret client-secret password sig signature "
    "authorization proxy-authorization cookie set-cookie"
)
SECRETS = frozenset(prefix + name for prefix in ("", "x-") for name in _NAMES.split())
"""Names of headers and of parameters of queries whose values are credentials, by `plain_name`."""


def plain_name(name: str) -> str:
    """A name of a header or parameter as `SECRETS` has it."""
    return name.lower().replace("_", "-").removesuffix("-bin")


def without_keys(text: str) -> str:
    """A text for logs and messages, with each key in it replaced."""
    return _KEY.sub(f"{PREFIX}***", text) if PREFIX in text else text


def without_credentials(target: str) -> str:
    """The target of a request without keys, and without the values of `SECRETS` in its query."""
    path, mark, query = target.partition("?")
    if (plain := unquote(path)) != without_keys(plain):
        path = without_keys(plain)
    return path + mark + "".join(map(_shown_parameter, re.split("([&;])", query)))


def _shown_parameter(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")
    shown, plain = unquote_plus(name), unquote_plus(parameter)
    if equals and plain_name(shown) in SECRETS:
        return f"{name}=***"
    return without_keys(plain) if plain != without_keys(plain) else parameter
