"""Keys of clients in texts and contents that are written down."""

import re
from collections.abc import Iterable
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


class CredentialMask:
    """Hides credentials in requests that are written down: keys, and the values of headers and parameters by name."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """`names` are further names, in lower case."""
        self.names = SECRETS.union(names)

    def hides(self, name: str) -> bool:
        """Whether the value of a header or parameter of this name is a credential."""
        return name.lower() in self.names or plain_name(name) in self.names

    def mask_target(self, target: str) -> str:
        """The target of a request without keys, and without the values of credentials in its query."""
        path, mark, query = target.partition("?")
        if (plain := unquote(path)) != without_keys(plain):
            path = without_keys(plain)
        return path + mark + "".join(map(self._mask_parameter, re.split("([&;])", query)))

    def _mask_parameter(self, parameter: str) -> str:
        name, equals, _ = parameter.partition("=")
        plain = unquote_plus(parameter)
        if equals and self.hides(unquote_plus(name)):
            return f"{name}=***"
        return without_keys(plain) if plain != without_keys(plain) else parameter
