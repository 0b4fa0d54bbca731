"""Calls whose arguments are JSON objects, by the markers that families of models write around them."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .brackets import Brackets, BrokenCall
from .parser import ARGUMENTS, CALL, HELD, ID, TEXT, CallParser, Tools

HEADER = re.compile(
    r'\{\s*(?:"tool_call_id"\s*:\s*"[^"\\]*"\s*,\s*)?"(?:tool_)?name"\s*:\s*("(?:[^"\\]|\\.)+")\s*,'
    r'\s*"(?:arguments|parameters)"\s*:\s*'
)
"""An object up to its arguments, in the order in which models write it."""

BARE = re.compile(r'\{\s*"name"\s*:\s*"([^"\\]*)"')
BEGUN = '{"name":"'
FRONT = re.compile(r"\s*\[?\s*")
"""What may be before the object of a call that begins the text."""

GAP = re.compile(r"[\s`json\[]*")
"""What may be between a marker and an object: a fence, and the bracket of a list."""

LONGEST = 512
"""Characters in which a call has to begin: each piece of a stream looks at them again."""


class Markers(NamedTuple):
    """What a family of models writes around calls.

    - `opens`: what announces calls. An object that calls a tool on offer needs no such thing where a line begins.
    - `ends`: what may follow a call.
    - `named`: a call up to its arguments, if its `name`, and its `id` if it has one, are outside of the object.
    - `bare`: whether an object at the beginning is a call of any function.
    """

    opens: Sequence[str]
    ends: Sequence[str] = ()
    named: str | None = None
    bare: bool = False


SECTION = "<|tool_calls_section_begin|>"
NAME = r"(?P<name>[\w.\-]{1,128})"
MISTRAL = rf"\[TOOL_CALLS\]\s*{NAME}(?:\[CALL_ID\](?P<id>\w{{1,64}}))?(?:\[ARGS\])?\s*(?=\{{\s*[\"}}])"
KIMI = (
    r"(?:<\|tool_calls_section_begin\|>\s*)?(?:<\|tool_call_begin\|>)?\s*(?P<id>(?:functions\.)?"
    rf"{NAME}(?::\d{{1,9}})?)\s*<\|tool_call_argument_begin\|>\s*(?=\{{\s*[\"}}]|<\|tool_call_end)"
)
# Version 3 writes a kind before the name and a fence around the arguments, 3.1 does not.
DEEPSEEK = (
    rf"(?:<｜tool▁calls▁begin｜>\s*)?<｜tool▁call▁begin｜>\s*(?:function<｜tool▁sep｜>)?{NAME}"
    r"\s*(?:<｜tool▁sep｜>)?\s*(?:```json)?\s*(?=\{\s*[\"}]|<｜tool▁call▁end)"
)

FAMILIES: Mapping[str, Markers] = {
    "hermes": Markers(["<tool_call>"], ["</tool_call>"]),
    "llama": Markers(["<|python_tag|>"], [";"], bare=True),
    "mistral": Markers(["[TOOL_CALLS]"], named=MISTRAL),
    "granite": Markers(["<|tool_call|>", "<tool_call>", "<function_call>"], ["</tool_call>"]),
    "phi": Markers(["<|tool_call|>", "functools"], ["<|/tool_call|>"]),
    "cohere": Markers(["<|START_ACTION|>", "Action:"], ["<|END_ACTION|>", "```"]),
    **dict.fromkeys(("minimax_m1", "hunyuan"), Markers(["<tool_calls>"], ["</tool_calls>"])),
    "nemotron": Markers(["<TOOLCALL>"], ["</TOOLCALL>"]),
    "xlam": Markers(["[TOOL_CALLS]", "<tool_call>", "```json"], ["</tool_call>", "```"], bare=True),
    "kimi": Markers(
        [SECTION, "<|tool_call_begin|>"],
        ["<|tool_call_end|>", "<|tool_calls_section_end|>"],
        KIMI,
    ),
    "deepseek": Markers(
        ["<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"],
        ["```", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"],
        DEEPSEEK,
    ),
}


class ObjectParser(CallParser):
    """Reads the object of a call. Its arguments are given as they come; an object in another order, when it ends."""

    _begin = 0
    """Where the object begins in the unread text, behind what announces it."""
    _brackets = Brackets(0)
    _depth = 1
    """Brackets that are still open behind the arguments."""
    _is_list = False
    """Whether further objects may follow in the same list."""

    def __init__(self, markers: Markers, tools: Tools = ()) -> None:
        super().__init__(tools)
        self._markers = markers

    def _start(self) -> bool:
        front = FRONT.match(self._text, 0, LONGEST)
        self._begin = begin = front.end() if front else 0
        if begin == len(self._text):
            return False
        self._is_list = "[" in self._text[:begin]
        if self._text[begin] != "{":
            return self._go(self._content)
        return self._open(begin) if self._markers.bare else self._go(self._bare)

    def _content(self) -> bool:
        """Text, in which a call may come."""
        marker = self._give_up_to(TEXT, *self._markers.opens, *(["\n{"] if self._tools else []))
        self._begin, self._is_list = len(marker) if marker != "\n{" else 1, False
        return bool(marker) and self._go(self._bare if marker == "\n{" else self._opened)

    def _bare(self) -> bool:
        """An object that nothing has announced."""
        if head := BARE.match(self._text, self._begin):
            return self._open(self._begin) if head[1] in self._tools else self._refuse(self._begin + 1)
        written = "".join(self._text[self._begin : LONGEST].split())[: len(BEGUN)]
        undecided = BEGUN.startswith(written) and len(self._text) < LONGEST
        return not undecided and self._refuse(self._begin + 1)

    def _opened(self) -> bool:
        text, pattern = self._text, self._markers.named
        if pattern and (named := re.compile(pattern).match(text, 0, LONGEST)):
            self._say(ID, named.groupdict().get("id") or "")
            self._brackets, self._depth = Brackets(named.end()), 0
            return self._call(named["name"], named.end())
        gap = (FRONT if pattern else GAP).match(text, self._begin, LONGEST)
        begin = gap.end() if gap else self._begin
        if begin == len(text):
            return False
        self._is_list = "[" in text[self._begin : begin]
        if text[begin] == "{":
            return self._open(begin)
        return (not pattern or len(text) >= LONGEST) and self._refuse(self._begin if pattern else begin)

    def _behind(self) -> bool:
        """What follows a call: the next one of its list, or ends."""
        return self._skip_ends(self._markers.ends, self._next if self._is_list else self._start)

    def _next(self) -> bool:
        if self._text[0] == "]":
            self._take(1)
            self._is_list = False
            return self._go(self._behind)
        begin = _spaces(self._text, 1) if self._text[0] == "," else 0
        if begin == len(self._text):
            return False
        return self._open(begin) if self._text[begin] == "{" else self._go(self._content)

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
                        if not (following := text[brackets.at :].lstrip()[:1]):
                            self._brackets = Brackets(begin)
                            break
                        if following in '"}':  # else it is no JSON
                            return self._call(name, header.end())
                elif not brackets.depth:
                    return self._whole(_loaded(text[begin : brackets.at]))
        except BrokenCall:
            return self._refuse(begin + 1)
        return len(text) > HELD and self._refuse(begin + 1)

    def _call(self, name: str, count: int) -> bool:
        """Give the name, and go on with the arguments, which begin behind so many characters, if there are any."""
        self._say(CALL, name)
        self._take(count)
        self._brackets.at -= count
        if self._text[0] == "{":
            return self._go(self._arguments)
        self._say(ARGUMENTS, "{}")
        return self._go(self._behind)

    def _whole(self, read: Any) -> bool:
        if isinstance(read, dict):
            read = read["function"] if isinstance(read.get("function"), dict) else read
            name = str(read.get("name") or read.get("tool_name") or "")
            arguments = read.get("arguments", read.get("parameters"))
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
            return self._argued() and self._go(self._behind)
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
