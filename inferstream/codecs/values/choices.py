"""One of several values: `Literal`, an `Enum`, or the `choices` of a declared tensor."""

import enum
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from ...types import RequestInput, ResponseOutput
from .base import CHOICES, SingleValue, brief


class Choice(SingleValue):
    """One of `values`. An enum travels as the values of its members.

    All values have one type, which `of` converts.
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
        return lambda element: self._chosen(read(element))

    def element(self, value: Any) -> Any:
        return self._of.element(self._plain(value))

    def check(self, value: Any) -> None:
        if self._members is not None and not isinstance(value, self._members):
            raise TypeError(f"takes a member of {self._members.__name__}, got {brief(value)}")
        self.element(value)

    def from_json(self, value: Any) -> Any:
        return self._chosen(self._of.from_json(value))

    def to_json(self, value: Any) -> Any:
        return self._of.to_json(self._plain(value))

    def _chosen(self, value: Any) -> Any:
        if value not in self._values:
            known = ", ".join(brief(self._of.to_json(each)) for each in self._values)
            raise ValueError(f"takes one of {known}, got {brief(value)}")
        return value if self._members is None else self._members(value)

    def _plain(self, value: Any) -> Any:
        if isinstance(value, enum.Enum) and (self._members is None or isinstance(value, self._members)):
            value = value.value  # a client that knows metadata alone takes any enum for its value
        plain = self._of.element(value)
        self._chosen(plain)
        return plain
