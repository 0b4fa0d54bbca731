"""Keys of clients in texts and contents that are written down."""

import re
from typing import AnyStr
from urllib.parse import unquote, unquote_plus

PREFIX = "ifs_"
"""How each key begins."""

_KEY = re.compile(PREFIX + r"[A-Za-z0-9._-]{40,}")

_FEWEST = 40
"""Characters of a key behind its prefix, at least."""

_MARKS = (b"ifs_", *(b"\\u00" + digits for digits in (b"69", b"66", b"73", b"5f", b"5F")))
"""The prefix, and its letters as JSON may have them; a content with none of them has no key."""
_ESCAPED_KEY = re.compile(
    rb"(?:i|\\u0069)(?:f|\\u0066)(?:s|\\u0073)(?:_|\\u005[fF])"
    rb"(?:[A-Za-z0-9._-]++|\\u00(?:2[dDeE]|3[0-9]|4[1-9a-fA-F]|5[0-9aAfF]|6[1-9a-fA-F]|7[0-9aA]))++"
)
_PIECE, _LONGEST = 32 * 1024, 2048
"""Bytes that are searched at once, because a search holds the interpreter lock, and those of a key with escapes."""

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


def hide_keys(content: AnyStr) -> AnyStr:
    """A content in which stars take the place of each key, byte by byte, so that lengths in it stay right."""
    if isinstance(content, str):
        raw = content.encode(errors="surrogatepass")
        hidden = hide_keys(raw)
        return content if hidden is raw else hidden.decode(errors="surrogatepass")
    if not any(mark in content for mark in _MARKS):
        return content
    written: bytearray | None = None
    for start in range(0, len(content), _PIECE):
        for match in _ESCAPED_KEY.finditer(content, start, start + _PIECE + _LONGEST):
            length = len(match[0])
            if match.start() < start + _PIECE and length - 5 * match[0].count(b"\\") >= _FEWEST + len(PREFIX):
                written = bytearray(content) if written is None else written
                written[match.start() : match.end()] = PREFIX.encode().ljust(length, b"*")
    return content if written is None else bytes(written)


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
