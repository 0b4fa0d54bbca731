"""The keys document, format version 1, from a file or from the environment."""

import json
import re
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec

from inferstream.errors import HINT, InvalidSettings
from inferstream.ext.telemetry import mask_keys

from .principal import NO_LIMITS, KeyLimits, Principal, known_scopes
from .secret import ID

VERSION = 1
"""The only supported version of the document."""

NEXT_STEP = f"{HINT}write the file with `server keys add --principal NAME`"

EXAMPLES = {
    "models": f'{HINT}write "models": ["*"] for all models, or a list of names',
    "scopes": f'{HINT}write "scopes": ["infer", "stream"]',
    "principal": f'{HINT}write "principal": "NAME"',
    "sha256": f"{HINT}make the key with `server keys add --principal NAME`",
}
"""The next step for each missing field."""

TYPES = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a JSON object",
    "null": "null",
}

_AT = r"(?: - at `\$\.?(?P<at>[\w.]*)(?P<item>\[.*)?`)?"
_MISSING = re.compile(r"Object missing required field `(?P<name>\w+)`" + _AT)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>[^`]*)`" + _AT)
_WRONG_TYPE = re.compile(r"Expected `(?P<expected>\w+)(?: \| null)?`, got `\w+`" + _AT)
_SHA256 = re.compile(r"[0-9a-f]{64}")

MAX_NAME = 256
"""Maximum length of a principal, a subject or a pattern in characters."""

TOKEN_KEY = "jwt:"
"""The prefix of token principals and of their key ids. Ids in the document cannot contain a colon."""


class Grant(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The permissions in one entry of the document. Raises ValueError for an invalid field."""

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
            parse_expiry(self.expires)

    def build_principal(self, key: str) -> Principal:
        expires = None if self.expires is None else parse_expiry(self.expires)
        return Principal(self.principal, key, self.scopes, self.models, expires, self.limits)


class KeyEntry(Grant, kw_only=True):
    """A key, stored as its SHA-256."""

    id: str
    sha256: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if not ID.fullmatch(self.id):
            raise ValueError('"id" must have 1 to 64 letters, digits, dots, underscores and hyphens')
        if not _SHA256.fullmatch(self.sha256):
            raise ValueError('"sha256" must have 64 hexadecimal digits in lower case')


class SubjectEntry(Grant, kw_only=True):
    """A name in client certificates."""

    subject: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name("subject", self.subject)


class TokenRules(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """The trusted issuer of signed tokens, and the claims that carry the permissions."""

    issuer: str
    audience: str
    jwks_file: str | None = None
    """A file with the issuer's keys. If None, they are fetched through OpenID Connect discovery."""
    principal_claim: str = "sub"
    scopes_claim: str = "scope"
    models_claim: str = "models"
    limits: KeyLimits = NO_LIMITS
    """The limits of each token principal."""
    shared_principals: bool = False
    """Whether a token and a key with the same principal name share one principal and its counters."""

    def __post_init__(self) -> None:
        if self.jwks_file is None and not self.issuer.startswith("https://"):
            raise ValueError('"issuer" must begin with https:// unless there is a "jwks_file"')


class Document(msgspec.Struct, kw_only=True):
    """All entries. `subjects` is empty without client certificates, and `jwt` is None without token rules."""

    keys: list[KeyEntry]
    subjects: list[SubjectEntry] = []
    jwt: TokenRules | None = None


Entry = TypeVar("Entry", KeyEntry, SubjectEntry, TokenRules)


def parse_document(text: str | bytes, source: str) -> Document:
    """Parse a keys document.

    Raises InvalidSettings with a one-line message that names `source` and the entry, but never contains a
    key.
    """
    try:
        values = json.loads(text, object_pairs_hook=_object, parse_constant=_reject_constant)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise InvalidSettings(f"{source}: {place}: not valid JSON{NEXT_STEP}") from None
    except (UnicodeDecodeError, RecursionError):
        raise InvalidSettings(f"{source}: not a JSON text{NEXT_STEP}") from None
    except ValueError as error:
        raise InvalidSettings(f"{source}: {_line(str(error))}") from None
    if not isinstance(values, dict):
        raise InvalidSettings(f"{source}: must hold a JSON object{NEXT_STEP}")
    if type(values.get("version")) is not int or values["version"] != VERSION:
        raise InvalidSettings(f'{source}: "version" must be {VERSION}{NEXT_STEP}')
    for name in values:
        if name not in ("version", "keys", "subjects", "jwt"):
            raise InvalidSettings(f'{source}: field "{_line(name)}" is unknown')
    if "keys" not in values:
        raise InvalidSettings(f'{source}: field "keys" is required')
    keys = _entries(values["keys"], KeyEntry, "keys", source)
    subjects = _entries(values.get("subjects", []), SubjectEntry, "subjects", source)
    rules = _entries([values["jwt"]], TokenRules, "jwt", source)[0] if "jwt" in values else None
    return _check_document(Document(keys=keys, subjects=subjects, jwt=rules), source)


def merge_documents(one: Document, other: Document, source: str) -> Document:
    """Merge two documents. Raises InvalidSettings if an entry is duplicated."""
    if one.jwt is not None and other.jwt is not None:
        raise InvalidSettings(f'{source}: field "jwt" is there twice')
    keys, subjects = [*one.keys, *other.keys], [*one.subjects, *other.subjects]
    return _check_document(Document(keys=keys, subjects=subjects, jwt=one.jwt or other.jwt), source)


def serialize(document: Document) -> bytes:
    """Serialize a document to JSON."""
    values: dict[str, Any] = {"version": VERSION, "keys": msgspec.to_builtins(document.keys)}
    if document.subjects:
        values["subjects"] = msgspec.to_builtins(document.subjects)
    if document.jwt is not None:
        values["jwt"] = msgspec.to_builtins(document.jwt)
    return json.dumps(values, indent=2, ensure_ascii=False).encode() + b"\n"


def parse_expiry(text: str) -> float:
    """Parse a UTC time into seconds since 1970. Raises ValueError."""
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
            raise InvalidSettings(
                f"{source}: {_name_entry(value, field, i)}: {_describe_fault(error)}"
            ) from None
    return entries


def _describe_fault(error: Exception) -> str:
    """Describe an invalid entry in this package's terms."""
    text = str(error)
    if (missing := _MISSING.fullmatch(text)) is not None:
        name = missing["name"]
        return f'"{name}" is missing{EXAMPLES.get(name, "")}'
    if (unknown := _UNKNOWN.fullmatch(text)) is not None:
        inside = f' in "{unknown["at"]}"' if unknown["at"] else ""
        return f'field "{_line(unknown["name"])}"{inside} is unknown'
    if (wrong := _WRONG_TYPE.fullmatch(text)) is not None:
        what = f'"{wrong["at"]}"' if wrong["at"] else "the entry"
        each = f"each item of {what}" if wrong["item"] else what
        return f"{each} must be {TYPES.get(wrong['expected'], wrong['expected'])}"
    return _line(text.replace("`", "").replace(" - at $.", " in "))


def _name_entry(value: Any, field: str, i: int) -> str:
    """Return the name of an entry for error messages."""
    if isinstance(value, dict):
        for name in ("id", "subject", "principal"):
            if isinstance(value.get(name), str):
                return f'{name} "{_line(value[name])}"'
    return f"{field}[{i}]"


def _line(text: str) -> str:
    """Make a string safe for a one-line message: keys are masked, and it is truncated."""
    shown = "".join(c if c.isprintable() else "?" for c in mask_keys(text))
    return shown if len(shown) <= 200 else shown[:197] + "..."


def _check_document(document: Document, source: str) -> Document:
    """Return the document. Raises InvalidSettings if an id, a subject or a key is duplicated."""
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
    """Return the string if it is printable and not too long for logs. Raises ValueError."""
    if not 1 <= len(text) <= MAX_NAME or not text.isprintable():
        raise ValueError(f'"{field}" must have 1 to {MAX_NAME} printable characters')
    return text


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f'field "{twice}" is there twice in one object')
    return fields


def _reject_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")
