"""`CallParser`: the base of streaming parsers, and the deltas that they emit."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..reader import find_partial_stop

TEXT, REASONING, ID, CALL, ARGUMENTS = "text", "reasoning", "id", "call", "arguments"
"""Kinds of deltas. A `call` delta is the name of a function, after an `id` delta if the model writes an ID.

`arguments` deltas belong to the preceding call.
"""

HELD = 65536
"""Maximum number of characters that a parser holds back. Longer undecided input is emitted as text."""

ESCAPING = re.compile(r"""\\["\\/bfnrtu']?|["\x00-\x1f]""")

Tools = Sequence[Mapping[str, Any]]


class Delta(NamedTuple):
    """A classified piece of the output."""

    kind: str
    text: str


class CallParser(ABC):
    """An incremental parser whose result does not depend on how the stream is split.

    A state function reads `_text` and returns whether it made progress. If not, it needs more input.
    Characters stay unread until they are classified, so that rejected calls can be emitted unchanged as text.
    """

    def __init__(self, tools: Tools = ()) -> None:
        functions = [tool["function"] for tool in tools if isinstance(tool.get("function"), dict)]
        self._tools = {str(function.get("name")): function for function in functions}
        self._text = ""
        self._given: list[Delta] = []
        self._state: Callable[[], bool] = self._start
        self.rest = TEXT
        """The kind of the unread characters if the stream ends now."""
        self._quoted, self._backslash = False, ""
        """Whether the arguments emitted so far end within a string, and a partial escape sequence after them.
        """

    def push(self, text: str) -> list[Delta]:
        """Add a piece of the stream and return the deltas that it completes.

        Adjacent deltas of one kind are merged, except calls.
        """
        self._text += text
        while self._state():
            pass
        given, self._given = self._given, []
        return given

    def finish(self, cut: bool = False) -> list[Delta]:
        """Return the remaining deltas at the end of the stream. `cut` means that the output was truncated."""
        self._emit_unread(self.rest, len(self._text))
        given, self._given = self._given, []
        return given

    @abstractmethod
    def _start(self) -> bool:
        """Handle the initial state."""

    def _emit_unread(self, kind: str, count: int) -> None:
        self._emit(kind, self._take(count))

    def _emit(self, kind: str, text: str) -> None:
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
        """Replace a raw control character in a string, or an invalid escape sequence, with valid JSON."""
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

    def _switch_to(self, state: Callable[[], bool]) -> bool:
        self._state = state
        return True

    def _emit_until(self, kind: str, *markers: str) -> str:
        """Emit everything before the first marker and return that marker. Empty if no marker occurs.

        A suffix that may be the start of a marker stays unread.
        """
        text = self._text
        places = [(at, marker) for marker in markers if (at := text.find(marker)) >= 0]
        if places:
            at, marker = min(places)
            self._emit_unread(kind, at)
            return marker
        self._emit_unread(kind, min(find_partial_stop(marker, text) for marker in markers))
        return ""

    def _skip_space(self) -> bool:
        """Drop white space. Returns whether any input is left."""
        self._text = self._text.lstrip()
        return bool(self._text)

    def _skip_ends(self, markers: Sequence[str], state: Callable[[], bool]) -> bool:
        """Drop white space and consecutive markers, then continue with `state`."""
        while self._skip_space():
            marker = next((each for each in markers if self._text.startswith(each)), None)
            if marker is None:
                undecided = any(each.startswith(self._text) for each in markers)
                return not undecided and self._switch_to(state)
            self._take(len(marker))
        return False


class Chain:
    """Two parsers in sequence: the second reads the text that the first emits."""

    def __init__(self, first: CallParser, second: CallParser) -> None:
        self.first, self._second = first, second

    def push(self, text: str) -> list[Delta]:
        return self._parse_text(self.first.push(text))

    def finish(self, cut: bool = False) -> list[Delta]:
        return self._parse_text(self.first.finish(cut)) + self._second.finish(cut)

    def _parse_text(self, deltas: Iterable[Delta]) -> list[Delta]:
        given: list[Delta] = []
        for delta in deltas:
            given += self._second.push(delta.text) if delta.kind == TEXT else [delta]
        return given
