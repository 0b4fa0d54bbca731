"""Typed access to the fields of a JSON object, with errors that name the invalid field."""

from collections.abc import Sequence
from math import isfinite
from typing import Any, Self

import orjson

from inferstream.errors import HINT, InvalidRequest
from inferstream.ext.http import JsonLimits, has_keys, parse_json, refuse_duplicate_keys

DEEPEST = 100
"""Maximum nesting depth of a body. Values derived from such a body can always be written as JSON."""

MAX_INTEGER = 2**63 - 1
"""The largest integer in a field, because gRPC parameters have 64 bits."""

MAX_STOP_LENGTH = 1000
"""Maximum length of a stop string in characters. Each response is searched for the start of each one."""

MAX_STOPS = 64
"""Maximum number of stop strings in a request. Editors and agents send a dozen."""

MAX_FIELDS = 256
"""Maximum number of request fields that become parameters, equal to the limit for V2 requests."""

EXAMPLES = {"messages": f'{HINT}send "messages": [{{"role": "user", "content": "Hello"}}]'}
"""Hints for missing fields whose format is not obvious."""


def wrong_field(path: str, sentence: str) -> InvalidRequest:
    """Return the error for an invalid field, with its path in `detail`."""
    return InvalidRequest(f"{path}: {sentence}", [{"loc": [path], "msg": sentence, "type": "value_error"}])


def field_error(name: str, sentence: str) -> InvalidRequest:
    """Return the error for the part `name` of a request."""
    sentence = f"{sentence}."
    return InvalidRequest(sentence, detail=[{"loc": [name], "msg": sentence, "type": "value_error"}])


class Fields:
    """The fields of the JSON object at `path` in a request. `path` is empty for the whole request.

    A field with a null value counts as missing.
    """

    def __init__(self, document: Any, path: str = "") -> None:
        if not isinstance(document, dict):
            raise (
                wrong_field(path, "must be an object")
                if path
                else InvalidRequest("The body must be a JSON object.")
            )
        self._document: dict[str, Any] = document
        self._prefix = f"{path}." if path else ""

    @classmethod
    def read(cls, body: bytes) -> Self:
        """Parse the JSON object in `body`. Raises InvalidRequest for anything else, or for duplicate keys."""
        try:
            document, text = parse_json(body)
        except orjson.JSONDecodeError as error:
            raise InvalidRequest(f"The body is not valid JSON: {error}") from None
        fields = cls(document)
        if not _is_plain(text, document):
            refuse_duplicate_keys(text, _count_keys(document))
        return fields

    def path(self, name: str) -> str:
        """Return the path of a field for error messages."""
        return self._prefix + name

    def wrong(self, name: str, sentence: str) -> InvalidRequest:
        """Return the error for a field."""
        return wrong_field(self.path(name), sentence)

    def get(self, name: str) -> Any:
        """Return any value, or None if the field is missing."""
        return self._document.get(name)

    def json(self, name: str, limits: JsonLimits | None) -> Any:
        """Return any value. A string is parsed as JSON within `limits`. Raises InvalidRequest."""
        value = self.get(name)
        if isinstance(value, str):
            try:
                if limits is not None:
                    limits.check_text(value, self.path(name))
                return parse_json(value.encode())[0]
            except (orjson.JSONDecodeError, UnicodeEncodeError):
                raise self.wrong(name, "is not valid JSON") from None
        return value

    def require(self, name: str) -> Any:
        """Return the field's value, of any type. Raises InvalidRequest if the field is missing or null."""
        value = self._document.get(name)
        if value is None:
            raise self.wrong(name, "is missing")
        return value

    def names(self) -> Sequence[str]:
        """Return the names of the fields that are not null."""
        return [name for name, value in self._document.items() if value is not None]

    def text(self, name: str) -> str | None:
        value = self._document.get(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, "must be a string")
        return value

    def require_text(self, name: str) -> str:
        value = self.text(name)
        return str(self.require(name)) if value is None else value

    def require_texts(self, name: str, most: int = MAX_INTEGER) -> list[str]:
        """Return a single string as a list, or a list of at most `most` strings."""
        value = self.require(name)
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not texts:
            raise self.wrong(name, "must be a string or a list of strings")
        if len(texts) > most:
            raise self.wrong(name, f"holds {len(texts)} texts, at most {most} are allowed")
        if not all(isinstance(each, str) for each in texts):
            raise self.wrong(name, "must hold strings; token ids are not taken")
        return texts

    def flag(self, name: str) -> bool:
        value = self._document.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(name, "must be true or false")
        return bool(value)

    def integer(self, name: str, least: int = -MAX_INTEGER - 1, most: int = MAX_INTEGER) -> int | None:
        value = self._document.get(name)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if type(value) is not int:
            raise self.wrong(name, "must be a whole number")
        return int(self._check_bounds(name, value, least, most))

    def number(self, name: str, least: float | None = None, most: float | None = None) -> float | None:
        value = self._document.get(name)
        if value is None:
            return None
        if type(value) not in (int, float) or not isfinite(value):
            raise self.wrong(name, "must be a number")
        return self._check_bounds(name, value, least, most)

    def _check_bounds(self, name: str, value: float, least: float | None, most: float | None) -> float:
        if least is not None and value < least:
            raise self.wrong(name, f"must be at least {least}, got {value}")
        if most is not None and value > most:
            raise self.wrong(name, f"must be at most {most}, got {value}")
        return value

    def choice(self, name: str, known: Sequence[str]) -> str | None:
        value = self.text(name)
        if value is not None and value not in known:
            raise self.wrong(name, f"must be one of {', '.join(known)}, got {value[:40]!r}")
        return value

    def require_choice(self, name: str, known: Sequence[str]) -> str:
        value = self.choice(name, known)
        return self.require_text(name) if value is None else value

    def items(self, name: str) -> list[Any] | None:
        value = self._document.get(name)
        if value is not None and not isinstance(value, list):
            raise self.wrong(name, "must be a list")
        return value

    def object(self, name: str) -> "Fields | None":
        value = self._document.get(name)
        return None if value is None else Fields(value, self.path(name))

    def merge(self, name: str) -> "Fields":
        """Return the fields of the object `name`, which take precedence, and of this one."""
        given = self.object(name)
        return self if given is None else Fields({**self._document, **given._document}, self.path(name))

    def require_object(self, name: str) -> "Fields":
        return Fields(self.require(name), self.path(name))

    def require_items(self, name: str, what: str, most: int) -> list[Any]:
        """Return a list with 1 to `most` items. `what` names the items in errors."""
        items = self.items(name)
        if not items:
            example = EXAMPLES.get(name, "")
            raise self.wrong(name, f"{'is missing' if items is None else 'must not be empty'}{example}")
        if len(items) > most:
            raise self.wrong(name, f"holds {len(items)} {what}, at most {most} are allowed")
        return items

    def other_parameters(self, known: frozenset[str]) -> dict[str, Any]:
        """Return all other fields as parameters for the model. Non-empty lists and objects become JSON."""
        parameters = {
            name: orjson.dumps(value).decode() if isinstance(value, (list, dict)) else value
            for name, value in self._document.items()
            if name not in known and value not in ([], {}, None)
        }
        if len(parameters) > MAX_FIELDS:
            raise InvalidRequest(f"{len(parameters)} parameters are more than the {MAX_FIELDS} allowed")
        return parameters

    def stop_strings(self, name: str = "stop") -> tuple[str, ...]:
        """Return the stop strings, from a string or a list."""
        value = self._document.get(name)
        if value is None:
            return ()
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not all(isinstance(each, str) and each for each in texts):
            raise self.wrong(name, "must be a string or a list of strings, none of them empty")
        if len(texts) > MAX_STOPS:
            raise self.wrong(name, f"holds {len(texts)} strings, at most {MAX_STOPS} are allowed")
        if max(map(len, texts), default=0) > MAX_STOP_LENGTH:
            raise self.wrong(name, f"holds a string of more than {MAX_STOP_LENGTH} characters")
        return tuple(texts)


def _is_plain(body: bytes, document: dict[str, Any]) -> bool:
    """Return whether a quick count rules out deep nesting and duplicate keys, as it does for most chats."""
    keys = len(document)
    for value in document.values():
        if type(value) is list:
            for item in value:
                if type(item) is dict:
                    keys += len(item)
    return body.count(b"[") + body.count(b"{") <= DEEPEST and has_keys(body, keys)


def _count_keys(document: dict[str, Any]) -> int:
    """Count the keys of all objects in a document. Raises InvalidRequest if it is nested too deeply."""
    keys = 0
    level: list[dict[str, Any] | list[Any]] = [document]
    for _ in range(DEEPEST):
        within: list[dict[str, Any] | list[Any]] = []
        for each in level:
            if isinstance(each, dict):
                keys += len(each)
                within += [value for value in each.values() if isinstance(value, (dict, list))]
            else:
                within += [value for value in each if isinstance(value, (dict, list))]
        if not within:
            return keys
        level = within
    raise InvalidRequest(f"The body is nested deeper than {DEEPEST} levels.")
