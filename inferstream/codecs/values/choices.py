"""One of several values: `Literal`, an `Enum`, or the `choices` of a declared tensor."""

import enum
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from ...types import RequestInput, ResponseOutput
from .base import CHOICES, SingleValue, format_brief


class Choice(SingleValue):
    """One of `values`. Enum members are sent as their values.

    All values have the same type, which `of` converts.
    """

    def __init__(
        self, of: SingleValue, values: Sequence[Any], members: type[enum.Enum] | None = None
    ) -> None:
        self._of = of
        self._values = [*values]
        self._members = members
        self.datatype = of.datatype
        self.content = of.content

    def facts(self) -> dict[str, Any]:
        return {CHOICES: orjson.dumps([self._of.to_json(value) for value in self._values]).decode()}

    def reader(self, tensor: RequestInput | ResponseOutput) -> Callable[[Any], Any]:
        read = self._of.reader(tensor)
        return lambda element: self._check_choice(read(element))

    def element(self, value: Any) -> Any:
        return self._of.element(self._unwrap_member(value))

    def check(self, value: Any) -> None:
        if self._members is not None and not isinstance(value, self._members):
            raise TypeError(f"takes a member of {self._members.__name__}, got {format_brief(value)}")
        self.element(value)

    def from_json(self, value: Any) -> Any:
        return self._check_choice(self._of.from_json(value))

    def to_json(self, value: Any) -> Any:
        return self._of.to_json(self._unwrap_member(value))

    def _check_choice(self, value: Any) -> Any:
        if value not in self._values:
            known = ", ".join(format_brief(self._of.to_json(each)) for each in self._values)
            raise ValueError(f"takes one of {known}, got {format_brief(value)}")
        return value if self._members is None else self._members(value)

    def _unwrap_member(self, value: Any) -> Any:
        if isinstance(value, enum.Enum) and (self._members is None or isinstance(value, self._members)):
            value = value.value  # A client lacks the class, so it accepts any enum with a valid value.
        plain = self._of.element(value)
        self._check_choice(plain)
        return plain
