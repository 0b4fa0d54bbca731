"""Calls that are JSON objects with a name and arguments: Hermes (and Qwen 2.5, 3), Mistral, Llama 3."""

import json
import re
from typing import Any, ClassVar

from .brackets import Brackets, BrokenCall
from .parser import ARGUMENTS, CALL, HELD, TEXT, CallParser

HEADER = re.compile(r'\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)+")\s*,\s*"(?:arguments|parameters)"\s*:\s*')
"""An object up to its arguments, in the order in which models write it."""

LISTED = re.compile(r"\[TOOL_CALLS\]\s*\[\s*(?=\{)")
NAMED = re.compile(r"\[TOOL_CALLS\]\s*([\w.\-]{1,128})(?:\[CALL_ID\]\w{1,64})?(?:\[ARGS\])?\s*(?=\{)")
BARE = re.compile(r'\{\s*"name"\s*:\s*"([^"\\]*)"')
BEGUN = '{"name":"'
LONGEST = 512
"""Characters in which a call has to begin: each piece of a stream looks at them again."""


class ObjectParser(CallParser):
    """Reads the object of a call. Its arguments are given as they come; an object in another order, when it ends."""

    OPEN: ClassVar[str]
    """What announces a call. An object that calls a tool on offer needs no such thing where a line begins."""
    FRONT: ClassVar[re.Pattern[str]] = re.compile(r"\s*")
    """What may be before the object of a call that begins the text."""

    _begin = 0
    """Where the object begins in the unread text, behind what announces it."""
    _brackets = Brackets(0)
    _depth = 1
    """Brackets that are still open behind the arguments."""

    def _start(self) -> bool:
        front = self.FRONT.match(self._text, 0, LONGEST)
        self._begin = begin = front.end() if front else 0
        if begin == len(self._text):
            return False
        return self._go(self._bare if self._text[begin] == "{" else self._content)

    def _content(self) -> bool:
        """Text, in which a call may come."""
        marker = self._give_up_to(TEXT, self.OPEN, *(["\n{"] if self._tools else []))
        self._begin = 1
        return bool(marker) and self._go(self._opened if marker == self.OPEN else self._bare)

    def _bare(self) -> bool:
        """An object that nothing has announced."""
        if head := BARE.match(self._text, self._begin):
            return self._open(self._begin) if head[1] in self._tools else self._refuse(self._begin + 1)
        written = "".join(self._text[self._begin : LONGEST].split())[: len(BEGUN)]
        undecided = BEGUN.startswith(written) and len(self._text) < LONGEST
        return not undecided and self._refuse(self._begin + 1)

    def _opened(self) -> bool:
        begin = _spaces(self._text, len(self.OPEN))
        if begin == len(self._text):
            return False
        return self._open(begin) if self._text[begin] == "{" else self._refuse(begin)

    def _behind(self) -> bool:
        """What follows the object of a call."""
        raise NotImplementedError

    def _open(self, begin: int) -> bool:
        self._begin, self._brackets, self._depth = begin, Brackets(begin), 1
        return self._go(self._object)

    def _refuse(self, count: int) -> bool:
        """What was announced is no call: give the announcement as text."""
        self._give(TEXT, count)
        return self._go(self._content)

    def _object(self) -> bool:
        """An object, up to its arguments or, if they are not where they should be, to its end."""
        text, brackets, begin = self._text, self._brackets, self._begin
        try:
            while (bracket := brackets.next(text)) and brackets.at <= HELD:
                if bracket == "{" and brackets.depth == 2:
                    header = HEADER.fullmatch(text, begin, brackets.at - 1)
                    if header and (name := _loaded(header[1])):
                        return self._call(name, header.end())
                elif not brackets.depth:
                    return self._whole(_loaded(text[begin : brackets.at]))
        except BrokenCall:
            return self._refuse(begin + 1)
        return len(text) > HELD and self._refuse(begin + 1)

    def _call(self, name: str, count: int) -> bool:
        """Give the name, and go on with the arguments, which begin behind so many characters."""
        self._say(CALL, name)
        self._take(count)
        self._brackets.at -= count
        return self._go(self._arguments)

    def _whole(self, read: Any) -> bool:
        if isinstance(read, dict):
            read = read["function"] if isinstance(read.get("function"), dict) else read
            name, arguments = str(read.get("name") or ""), read.get("arguments", read.get("parameters"))
            if arguments is None and name in self._tools:
                arguments = {}
            elif isinstance(arguments, str):
                arguments = _loaded(arguments)
            if name and isinstance(arguments, dict):
                self._say(CALL, name)
                self._say(ARGUMENTS, json.dumps(arguments, ensure_ascii=False))
                self._take(self._brackets.at)
                return self._go(self._behind)
        return self._refuse(self._begin + 1)

    def _arguments(self) -> bool:
        brackets = self._brackets
        try:
            while brackets.next(self._text):
                if brackets.depth == self._depth:
                    return self._argued() and self._go(self._trailer if self._depth else self._behind)
        except BrokenCall:
            return self._argued() and self._go(self._content)
        self._argued()
        return False

    def _argued(self) -> bool:
        self._give(ARGUMENTS, self._brackets.at)
        self._brackets.at = 0
        return True

    def _trailer(self) -> bool:
        """What an object has behind its arguments, such as an id."""
        try:
            while self._brackets.next(self._text) and self._brackets.at <= HELD:
                if not self._brackets.depth:
                    self._take(self._brackets.at)
                    return self._go(self._behind)
        except BrokenCall:  # a bracket too few
            return self._go(self._behind)
        return len(self._text) > HELD and self._go(self._content)

    def _space(self) -> bool:
        return self._skip_space() and self._go(self._start)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _spaces(text: str, at: int) -> int:
    """Where white space ends, or where there is too much of it."""
    while at < min(len(text), LONGEST) and text[at].isspace():
        at += 1
    return at


class Hermes(ObjectParser):
    """`<tool_call>{"name": "f", "arguments": {}}</tool_call>`, one for each call."""

    OPEN = "<tool_call>"

    def _behind(self) -> bool:
        return self._skip_end("</tool_call>", self._space)


class Mistral(ObjectParser):
    """`[TOOL_CALLS][{"name": "f", "arguments": {}}, …]`, or `[TOOL_CALLS]f[ARGS]{}` for each call."""

    OPEN = "[TOOL_CALLS]"
    FRONT = re.compile(r"\s*\[?\s*")

    def _opened(self) -> bool:
        text = self._text
        if listed := LISTED.match(text, 0, LONGEST):
            return self._open(listed.end())
        if named := NAMED.match(text, 0, LONGEST):
            self._brackets, self._depth = Brackets(named.end()), 0
            return self._call(named[1], named.end())
        return len(text) >= LONGEST and self._refuse(len(self.OPEN))

    def _behind(self) -> bool:
        if not self._depth:
            return self._go(self._space)
        if not self._skip_space():
            return False
        if self._text[0] == "]":
            self._take(1)
            return self._go(self._space)
        begin = _spaces(self._text, 1)
        if self._text[0] == "," and begin == len(self._text):
            return False
        following = self._text[0] == "," and self._text[begin] == "{"
        return self._open(begin) if following else self._go(self._content)


class Llama(ObjectParser):
    """`{"name": "f", "parameters": {}}` as the whole text, or behind `<|python_tag|>`; `;` between calls."""

    OPEN = "<|python_tag|>"

    def _start(self) -> bool:
        begin = _spaces(self._text, 0)
        if begin == len(self._text):
            return False
        return self._open(begin) if self._text[begin] == "{" else self._go(self._content)

    def _behind(self) -> bool:
        if not self._skip_space():
            return False
        begin = _spaces(self._text, 1) if self._text[0] == ";" else 0
        if begin == len(self._text):
            return False
        return self._open(begin) if self._text[begin] == "{" else self._go(self._content)
