"""The document of keys: format version 1, in a file or in the environment."""

import json
import re
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec

from inferstream.ext.telemetry import mask_keys

from ..errors import InvalidSettings
from .principal import NO_LIMITS, KeyLimits, Principal, known_scopes
from .secret import ID

VERSION = 1
"""The only version of the document that is read."""

_SHA256 = re.compile(r"[0-9a-f]{64}")

MOST_NAME = 256
"""Characters of a principal's name, of a subject, and of a pattern."""

TOKEN_KEY = "jwt:"
"""Begins the names of principals of tokens, and what they have for the id of a key, which has no colon."""


class Grant(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What an entry of the document allows. Raises ValueError for a field that is wrong."""

    principal: str
    scopes: list[str]
    models: list[str]
    expires: str | None = None
    limits: KeyLimits = NO_LIMITS

    def __post_init__(self) -> None:
        check_name("principal", self.principal)
        for scope in self.scopes:
            if scope not in known_scopes():
                raise ValueError(f'scope "{scope}" is unknown; there are {", ".join(known_scopes())}')
        for pattern in self.models:
            check_name("models", pattern)
        if self.expires is not None:
            expiry(self.expires)

    def principal_of(self, key: str) -> Principal:
        expires = None if self.expires is None else expiry(self.expires)
        return Principal(self.principal, key, self.scopes, self.models, expires, self.limits)


class KeyEntry(Grant, kw_only=True):
    """A key, of which only the SHA-256 is known."""

    id: str
    sha256: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if not ID.fullmatch(self.id):
            raise ValueError('"id" must have 1 to 64 letters, digits, dots, underscores and hyphens')
        if not _SHA256.fullmatch(self.sha256):
            raise ValueError('"sha256" must have 64 hexadecimal digits in lower case')


class SubjectEntry(Grant, kw_only=True):
    """A name in the certificate of clients."""

    subject: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name("subject", self.subject)


class TokenRules(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """Whose signed tokens count, and which of their claims say what they allow."""

    issuer: str
    audience: str
    jwks_file: str | None = None
    """The keys of the issuer; if absent, they are asked for where OpenID Connect has them."""
    principal_claim: str = "sub"
    scopes_claim: str = "scope"
    models_claim: str = "models"
    limits: KeyLimits = NO_LIMITS
    """The limits of each principal."""
    shared_principals: bool = False
    """Whether a token is of the principal that a key names so, as if both were keys of one principal."""

    def __post_init__(self) -> None:
        if self.jwks_file is None and not self.issuer.startswith("https://"):
            raise ValueError('"issuer" must begin with https:// unless there is a "jwks_file"')


class Document(msgspec.Struct, kw_only=True):
    """All entries. `subjects` is empty unless clients have certificates, `jwt` None unless they have tokens."""

    keys: list[KeyEntry]
    subjects: list[SubjectEntry] = []
    jwt: TokenRules | None = None


Entry = TypeVar("Entry", KeyEntry, SubjectEntry, TokenRules)


def parsed(text: str | bytes, source: str) -> Document:
    """The document in a text. Raises InvalidSettings with one line that names `source` and the entry, never a key."""
    try:
        values = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise InvalidSettings(f"{source}: line {error.lineno} column {error.colno}: {error.msg}") from None
    except (UnicodeDecodeError, RecursionError):
        raise InvalidSettings(f"{source}: not a JSON text") from None
    except ValueError as error:
        raise InvalidSettings(f"{source}: {_line(str(error))}") from None
    if not isinstance(values, dict):
        raise InvalidSettings(f"{source}: must hold a JSON object")
    if type(values.get("version")) is not int or values["version"] != VERSION:
        raise InvalidSettings(f'{source}: "version" must be {VERSION}')
    for name in values:
        if name not in ("version", "keys", "subjects", "jwt"):
            raise InvalidSettings(f'{source}: field "{_line(name)}" is unknown')
    if "keys" not in values:
        raise InvalidSettings(f'{source}: field "keys" is required')
    keys = _entries(values["keys"], KeyEntry, "keys", source)
    subjects = _entries(values.get("subjects", []), SubjectEntry, "subjects", source)
    rules = _entries([values["jwt"]], TokenRules, "jwt", source)[0] if "jwt" in values else None
    return _checked(Document(keys=keys, subjects=subjects, jwt=rules), source)


def merged(one: Document, other: Document, source: str) -> Document:
    """The entries of two documents as one, in which each is there once too. Raises InvalidSettings."""
    if one.jwt is not None and other.jwt is not None:
        raise InvalidSettings(f'{source}: field "jwt" is there twice')
    keys, subjects = [*one.keys, *other.keys], [*one.subjects, *other.subjects]
    return _checked(Document(keys=keys, subjects=subjects, jwt=one.jwt or other.jwt), source)


def written(document: Document) -> bytes:
    """The text of a document, for its file."""
    values: dict[str, Any] = {"version": VERSION, "keys": msgspec.to_builtins(document.keys)}
    if document.subjects:
        values["subjects"] = msgspec.to_builtins(document.subjects)
    if document.jwt is not None:
        values["jwt"] = msgspec.to_builtins(document.jwt)
    return json.dumps(values, indent=2, ensure_ascii=False).encode() + b"\n"


def expiry(text: str) -> float:
    """Seconds since 1970 of a time in UTC. Raises ValueError."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.utcoffset() != timedelta():
        raise ValueError(f'"expires" must be a time in UTC, such as "2030-01-31T00:00:00Z", got "{text}"')
    return time.timestamp()


def _entries(values: Any, kind: type[Entry], field: str, source: str) -> list[Entry]:
    if not isinstance(values, list):
        raise InvalidSettings(f'{source}: field "{field}" must be a list')
    entries = []
    for i, value in enumerate(values):
        try:
            entries.append(msgspec.convert(value, kind))
        except (msgspec.ValidationError, ValueError) as error:
            raise InvalidSettings(f"{source}: {_which(value, field, i)}: {_line(str(error))}") from None
    return entries


def _which(value: Any, field: str, i: int) -> str:
    """The name of an entry for messages."""
    if isinstance(value, dict):
        for name in ("id", "subject", "principal"):
            if isinstance(value.get(name), str):
                return f'{name} "{_line(value[name])}"'
    return f"{field}[{i}]"


def _line(text: str) -> str:
    """A text for one line of a message, without keys."""
    shown = "".join(c if c.isprintable() else "?" for c in mask_keys(text))
    return shown if len(shown) <= 200 else shown[:197] + "..."


def _checked(document: Document, source: str) -> Document:
    """A document in which nobody is there twice. Raises InvalidSettings."""
    _check_unique([entry.id for entry in document.keys], "id", source)
    _check_unique([entry.subject for entry in document.subjects], "subject", source)
    hashes: dict[str, str] = {}
    for entry in document.keys:
        if other := hashes.get(entry.sha256):
            raise InvalidSettings(f'{source}: "{other}" and "{entry.id}" are the same key')
        hashes[entry.sha256] = entry.id
    for principal in (each.principal for each in (*document.keys, *document.subjects)):
        if document.jwt is not None and principal.startswith(TOKEN_KEY):
            raise InvalidSettings(
                f'{source}: principal "{_line(principal)}": "{TOKEN_KEY}" begins those of tokens'
            )
    return document


def _check_unique(names: list[str], field: str, source: str) -> None:
    known = set()
    for name in names:
        if name in known:
            raise InvalidSettings(f'{source}: {field} "{_line(name)}" is there twice')
        known.add(name)


def check_name(field: str, text: str) -> str:
    """A text that can stand in logs. Raises ValueError."""
    if not 1 <= len(text) <= MOST_NAME or not text.isprintable():
        raise ValueError(f'"{field}" must have 1 to {MOST_NAME} printable characters')
    return text


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f'field "{twice}" is there twice in one object')
    return fields


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")
