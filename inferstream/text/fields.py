"""Reads the fields of a JSON object, and refuses a wrong one by its name."""

from collections.abc import Sequence
from math import isfinite
from typing import Any, Self

import orjson

from inferstream.errors import InvalidRequest
from inferstream.ext.http import JsonLimits, has_keys, parse_json, refuse_duplicate_keys

DEEPEST = 100
"""Levels of lists and objects in a body at most. All that is made of it can be written as JSON then."""

LARGEST = 2**63 - 1
"""The largest whole number of a field, because parameters of gRPC have 64 bits."""

LONGEST_STOP = 1000
"""Characters of a stop string. Where a text may be the beginning of one is searched for in each response."""

MOST_STOPS = 64
"""Stop strings of a request. Editors and agents send a dozen."""

MOST_FIELDS = 256
"""Fields of a request that become parameters, as many as a request of V2 may have."""


def wrong_field(path: str, sentence: str) -> InvalidRequest:
    """The error of a field. Its `detail` names it, for dialects whose errors have a place for names."""
    return InvalidRequest(f"{path}: {sentence}", [{"loc": [path], "msg": sentence, "type": "value_error"}])


def refused(name: str, sentence: str) -> InvalidRequest:
    """The error of one part of a request, which `name` names to the client."""
    sentence = f"{sentence}."
    return InvalidRequest(sentence, detail=[{"loc": [name], "msg": sentence, "type": "value_error"}])


class Fields:
    """The fields of a JSON object at `path` of a request, empty for the request itself. A null is no value."""

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
        """The fields of the JSON object in `body`. Raises InvalidRequest for anything that is not one."""
        try:
            document, text = parse_json(body)
        except orjson.JSONDecodeError as error:
            raise InvalidRequest(f"The body is not valid JSON: {error}") from None
        fields = cls(document)
        if not _plain(text, document):
            refuse_duplicate_keys(text, _keys(document))
        return fields

    def path(self, name: str) -> str:
        """The name of a field in errors."""
        return self._prefix + name

    def wrong(self, name: str, sentence: str) -> InvalidRequest:
        """The error of a field."""
        return wrong_field(self.path(name), sentence)

    def get(self, name: str) -> Any:
        """Any value; None if it is absent."""
        return self._document.get(name)

    def json(self, name: str, limits: JsonLimits | None) -> Any:
        """Any value, or that of the JSON text in its place, which may be beyond no limit. Raises InvalidRequest."""
        value = self.get(name)
        if isinstance(value, str):
            try:
                if limits is not None:
                    limits.check_text(value, self.path(name))
                return parse_json(value.encode())[0]
            except (orjson.JSONDecodeError, UnicodeEncodeError):
                raise self.wrong(name, "is not valid JSON") from None
        return value

    def needed(self, name: str) -> Any:
        """Any value but none."""
        value = self._document.get(name)
        if value is None:
            raise self.wrong(name, "is missing")
        return value

    def names(self) -> Sequence[str]:
        """The fields that are there."""
        return [name for name, value in self._document.items() if value is not None]

    def text(self, name: str) -> str | None:
        value = self._document.get(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, "must be a string")
        return value

    def needed_text(self, name: str) -> str:
        value = self.text(name)
        return str(self.needed(name)) if value is None else value

    def needed_texts(self, name: str, most: int = LARGEST) -> list[str]:
        """One string, or a list of at most `most`."""
        value = self.needed(name)
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

    def integer(self, name: str, least: int = -LARGEST - 1, most: int = LARGEST) -> int | None:
        value = self._document.get(name)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if type(value) is not int:
            raise self.wrong(name, "must be a whole number")
        return int(self._within(name, value, least, most))

    def number(self, name: str, least: float | None = None, most: float | None = None) -> float | None:
        value = self._document.get(name)
        if value is None:
            return None
        if type(value) not in (int, float) or not isfinite(value):
            raise self.wrong(name, "must be a number")
        return self._within(name, value, least, most)

    def _within(self, name: str, value: float, least: float | None, most: float | None) -> float:
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

    def needed_choice(self, name: str, known: Sequence[str]) -> str:
        value = self.choice(name, known)
        return self.needed_text(name) if value is None else value

    def items(self, name: str) -> list[Any] | None:
        value = self._document.get(name)
        if value is not None and not isinstance(value, list):
            raise self.wrong(name, "must be a list")
        return value

    def object(self, name: str) -> "Fields | None":
        value = self._document.get(name)
        return None if value is None else Fields(value, self.path(name))

    def needed_object(self, name: str) -> "Fields":
        return Fields(self.needed(name), self.path(name))

    def needed_items(self, name: str, what: str, most: int) -> list[Any]:
        """A list of one to `most`, which errors call `what`."""
        items = self.items(name)
        if not items:
            raise self.wrong(name, "is missing" if items is None else "must not be empty")
        if len(items) > most:
            raise self.wrong(name, f"holds {len(items)} {what}, at most {most} are allowed")
        return items

    def others(self, known: frozenset[str]) -> dict[str, Any]:
        """Every other field: parameters for the model. Lists and objects, unless empty, are JSON."""
        parameters = {
            name: orjson.dumps(value).decode() if isinstance(value, (list, dict)) else value
            for name, value in self._document.items()
            if name not in known and value not in ([], {}, None)
        }
        if len(parameters) > MOST_FIELDS:
            raise InvalidRequest(f"{len(parameters)} parameters are more than the {MOST_FIELDS} allowed")
        return parameters

    def stop(self, name: str = "stop") -> tuple[str, ...]:
        """Strings that end a text: one, or a list."""
        value = self._document.get(name)
        if value is None:
            return ()
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not all(isinstance(each, str) and each for each in texts):
            raise self.wrong(name, "must be a string or a list of strings, none of them empty")
        if len(texts) > MOST_STOPS:
            raise self.wrong(name, f"holds {len(texts)} strings, at most {MOST_STOPS} are allowed")
        if max(map(len, texts), default=0) > LONGEST_STOP:
            raise self.wrong(name, f"holds a string of more than {LONGEST_STOP} characters")
        return tuple(texts)


def _plain(body: bytes, document: dict[str, Any]) -> bool:
    """Whether a body is seen at once to be neither deep nor with a key twice, as that of a usual chat is."""
    keys = len(document)
    for value in document.values():
        if type(value) is list:
            for item in value:
                if type(item) is dict:
                    keys += len(item)
    return body.count(b"[") + body.count(b"{") <= DEEPEST and has_keys(body, keys)


def _keys(document: dict[str, Any]) -> int:
    """How many keys the objects of a document have. Raises InvalidRequest if it is nested too deeply."""
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
