"""`Brackets`: finds the end of an object or a call in streamed text."""

import re

DEEPEST = 100
"""Maximum nesting depth. A value with deeper nesting is rejected."""

CLOSING = {"{": "}", "[": "]", "(": ")"}

JSON = re.compile(r"[\s0-9,:+\-.eEtrufalsn]*")
"""The characters between brackets and strings in JSON."""

PYTHON = re.compile(r"[^{}\[\]()'\"]*")
"""The characters between brackets and strings in a Python call."""

QUOTED = {'"': re.compile(r'[^"\\]*'), "'": re.compile(r"[^'\\]*")}


class BrokenCall(Exception):
    """Raised for text that cannot be parsed as a call."""


class Brackets:
    """A scanner for brackets outside strings. `at` is its position, after the last bracket."""

    __slots__ = ("_between", "_open", "_quotes", "_within", "at")

    def __init__(self, at: int, python: bool = False) -> None:
        self.at = at
        self._between = PYTHON if python else JSON
        self._quotes = "'\"" if python else '"'
        self._open: list[str] = []
        self._within = ""
        """The quote of the current string. Empty outside strings."""

    @property
    def depth(self) -> int:
        return len(self._open)

    def next(self, text: str) -> str:
        """Advance past the next bracket and return it. Empty if the text ends first. Raises BrokenCall."""
        size = len(text)
        while True:
            pattern = QUOTED[self._within] if self._within else self._between
            match = pattern.match(text, self.at)
            self.at = at = match.end() if match else self.at
            if at == size:
                return ""
            character = text[at]
            if self._within:
                if character == "\\":
                    if at + 1 == size:
                        return ""
                    self.at = at + 2
                    continue
                self._within = ""
            elif character in self._quotes:
                self._within = character
            else:
                self._count(character)
                self.at = at + 1
                return character
            self.at = at + 1

    def _count(self, character: str) -> None:
        if closing := CLOSING.get(character):
            if len(self._open) == DEEPEST:
                raise BrokenCall
            self._open.append(closing)
        elif not self._open or self._open.pop() != character:
            raise BrokenCall
