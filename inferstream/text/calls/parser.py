"""`CallParser`: a transformer of a text stream, and what it makes of the text."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..reader import beginning

TEXT, REASONING, ID, CALL, ARGUMENTS = "text", "reasoning", "id", "call", "arguments"
"""Kinds of deltas. A call is the name of a function, behind the id that the model gives it, if any.

Arguments belong to the call before them.
"""

HELD = 65536
"""Characters that a parser keeps until it knows what they are; beyond, they are text."""

ESCAPING = re.compile(r"""\\["\\/bfnrtu']?|["\x00-\x1f]""")

Tools = Sequence[Mapping[str, Any]]


class Delta(NamedTuple):
    """A piece of what a text means."""

    kind: str
    text: str


class CallParser(ABC):
    """Reads pieces of a text. What it makes of them depends on the text alone, not on where it is split.

    A state looks at the text that is not read yet, and says whether it has got on; if not, it needs more text.
    Text stays unread until it is clear what it is, so text that turns out to be no call can be given as it is.
    """

    def __init__(self, tools: Tools = ()) -> None:
        functions = [tool["function"] for tool in tools if isinstance(tool.get("function"), dict)]
        self._tools = {str(function.get("name")): function for function in functions}
        self._text = ""
        self._given: list[Delta] = []
        self._state: Callable[[], bool] = self._start
        self.rest = TEXT
        """What the unread text is where the stream ends."""
        self._quoted, self._backslash = False, ""
        """Whether the arguments given so far end within a string, and the beginning of an escape behind them."""

    def push(self, text: str) -> list[Delta]:
        """What a further piece makes clear. Neighbours are of different kinds, but for calls."""
        self._text += text
        while self._state():
            pass
        given, self._given = self._given, []
        return given

    def finish(self, cut: bool = False) -> list[Delta]:
        """The rest, at the end of the stream, which may have been cut off."""
        self._give(self.rest, len(self._text))
        given, self._given = self._given, []
        return given

    @abstractmethod
    def _start(self) -> bool:
        """The first state."""

    def _give(self, kind: str, count: int) -> None:
        self._say(kind, self._take(count))

    def _say(self, kind: str, text: str) -> None:
        if not text:
            return
        if kind == CALL:
            self._quoted, self._backslash = False, ""
        elif kind == ARGUMENTS:
            text, self._backslash = self._backslash + text, ""
            text = ESCAPING.sub(self._escape, text)
        last = self._given[-1] if self._given else None
        if last is not None and last.kind == kind != CALL:
            self._given[-1] = Delta(kind, last.text + text)
        else:
            self._given.append(Delta(kind, text))

    def _escape(self, match: re.Match[str]) -> str:
        """What JSON has for a line break that a model has written bare in a string, and for an escape that it lacks."""
        text = match[0]
        if text == '"':
            self._quoted = not self._quoted
        elif text == "\\" and match.end() == len(match.string):
            self._backslash, text = text, ""
        elif text in ("\\", "\\'"):
            return "\\\\" if text == "\\" else "'"
        elif text < " " and self._quoted:
            return json.dumps(text)[1:-1]
        return text

    def _take(self, count: int) -> str:
        taken, self._text = self._text[:count], self._text[count:]
        return taken

    def _go(self, state: Callable[[], bool]) -> bool:
        self._state = state
        return True

    def _give_up_to(self, kind: str, *markers: str) -> str:
        """Give what comes before the first of the markers, and say which one the text now begins with, if any.

        An end of the text that may begin a marker is kept.
        """
        text = self._text
        places = [(at, marker) for marker in markers if (at := text.find(marker)) >= 0]
        if places:
            at, marker = min(places)
            self._give(kind, at)
            return marker
        self._give(kind, min(beginning(marker, text) for marker in markers))
        return ""

    def _skip_space(self) -> bool:
        """Drop white space; whether there is text behind it."""
        self._text = self._text.lstrip()
        return bool(self._text)

    def _skip_ends(self, markers: Sequence[str], state: Callable[[], bool]) -> bool:
        """Drop white space and markers as long as they follow each other; then go on with a state."""
        while self._skip_space():
            marker = next((each for each in markers if self._text.startswith(each)), None)
            if marker is None:
                undecided = any(each.startswith(self._text) for each in markers)
                return not undecided and self._go(state)
            self._take(len(marker))
        return False


class Chain:
    """One parser behind the other: the second reads what is text to the first."""

    def __init__(self, first: CallParser, second: CallParser) -> None:
        self.first, self._second = first, second

    def push(self, text: str) -> list[Delta]:
        return self._through(self.first.push(text))

    def finish(self, cut: bool = False) -> list[Delta]:
        return self._through(self.first.finish(cut)) + self._second.finish(cut)

    def _through(self, deltas: Iterable[Delta]) -> list[Delta]:
        given: list[Delta] = []
        for delta in deltas:
            given += self._second.push(delta.text) if delta.kind == TEXT else [delta]
        return given
