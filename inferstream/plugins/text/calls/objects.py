"""Tool calls with JSON arguments, in the markers of different model families."""

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
"""The start of an object up to its arguments, with the keys in the usual order."""

BARE = re.compile(r'\{\s*"name"\s*:\s*"([^"\\]*)"')
BEGUN = '{"name":"'
FRONT = re.compile(r"\s*\[?\s*")
"""Optional characters before a call at the start of the output."""

GAP = re.compile(r"[\s`json\[]*")
"""Optional characters between a marker and an object: a code fence and the bracket of a list."""

MAX_START_LENGTH = 512
"""Number of characters within which a call must start. Each new piece of a stream rescans them."""


class Markers(NamedTuple):
    """The markers of a model family around tool calls.

    - `opens`: markers before calls. They are optional if a line starts with an object that calls an
      offered tool.
    - `ends`: markers after a call.
    - `named`: a call up to its arguments, if its `name`, and optionally its `id`, are outside the object.
    - `bare`: whether an object at the start of the output is a call, whatever the function.
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
# Version 3 writes a kind before the name and a code fence around the arguments. Version 3.1 writes neither.
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
    """Parses calls that are JSON objects.

    The arguments are streamed. An object with its keys in an unusual order is emitted when it ends.
    """

    _begin = 0
    """Start of the object in the unread text, after its marker."""
    _brackets = Brackets(0)
    _depth = 1
    """Number of brackets that are still open after the arguments."""
    _is_list = False
    """Whether more calls may follow in the same list."""

    def __init__(self, markers: Markers, tools: Tools = ()) -> None:
        super().__init__(tools)
        self._markers = markers

    def _start(self) -> bool:
        front = FRONT.match(self._text, 0, MAX_START_LENGTH)
        self._begin = begin = front.end() if front else 0
        if begin == len(self._text):
            return False
        self._is_list = "[" in self._text[:begin]
        if self._text[begin] != "{":
            return self._switch_to(self._content)
        return self._open(begin) if self._markers.bare else self._switch_to(self._bare)

    def _content(self) -> bool:
        """Read text that may contain calls."""
        marker = self._emit_until(TEXT, *self._markers.opens, *(["\n{"] if self._tools else []))
        self._begin, self._is_list = len(marker) if marker != "\n{" else 1, False
        return bool(marker) and self._switch_to(self._bare if marker == "\n{" else self._read_opening)

    def _bare(self) -> bool:
        """Read an object that has no marker before it."""
        if head := BARE.match(self._text, self._begin):
            return self._open(self._begin) if head[1] in self._tools else self._refuse(self._begin + 1)
        written = "".join(self._text[self._begin : MAX_START_LENGTH].split())[: len(BEGUN)]
        undecided = BEGUN.startswith(written) and len(self._text) < MAX_START_LENGTH
        return not undecided and self._refuse(self._begin + 1)

    def _read_opening(self) -> bool:
        text, pattern = self._text, self._markers.named
        if pattern and (named := re.compile(pattern).match(text, 0, MAX_START_LENGTH)):
            self._emit(ID, named.groupdict().get("id") or "")
            self._brackets, self._depth = Brackets(named.end()), 0
            return self._call(named["name"], named.end())
        gap = (FRONT if pattern else GAP).match(text, self._begin, MAX_START_LENGTH)
        begin = gap.end() if gap else self._begin
        if begin == len(text):
            return False
        self._is_list = "[" in text[self._begin : begin]
        if text[begin] == "{":
            return self._open(begin)
        return (not pattern or len(text) >= MAX_START_LENGTH) and self._refuse(
            self._begin if pattern else begin
        )

    def _after_call(self) -> bool:
        """Read the text after a call: the next call of a list, or end markers."""
        return self._skip_ends(self._markers.ends, self._next if self._is_list else self._start)

    def _next(self) -> bool:
        if self._text[0] == "]":
            self._take(1)
            self._is_list = False
            return self._switch_to(self._after_call)
        begin = _spaces(self._text, 1) if self._text[0] == "," else 0
        if begin == len(self._text):
            return False
        return self._open(begin) if self._text[begin] == "{" else self._switch_to(self._content)

    def _open(self, begin: int) -> bool:
        self._begin, self._brackets, self._depth = begin, Brackets(begin), 1
        return self._switch_to(self._object)

    def _refuse(self, count: int) -> bool:
        """Emit `count` characters as text, because no call follows."""
        self._emit_unread(TEXT, count)
        return self._switch_to(self._content)

    def _object(self) -> bool:
        """Read an object up to its arguments or, if its keys have an unusual order, to its end."""
        text, brackets, begin = self._text, self._brackets, self._begin
        try:
            while (bracket := brackets.next(text)) and brackets.at <= HELD:
                if bracket == "{" and brackets.depth == 2:
                    header = HEADER.fullmatch(text, begin, brackets.at - 1)
                    if header and (name := _parse_json(header[1])):
                        if not (following := text[brackets.at :].lstrip()[:1]):
                            self._brackets = Brackets(begin)
                            break
                        if following in '"}':  # otherwise invalid JSON
                            return self._call(name, header.end())
                elif not brackets.depth:
                    return self._whole(_parse_json(text[begin : brackets.at]))
        except BrokenCall:
            return self._refuse(begin + 1)
        return len(text) > HELD and self._refuse(begin + 1)

    def _call(self, name: str, count: int) -> bool:
        """Emit the name and continue after `count` characters, where the arguments, if any, start."""
        self._emit(CALL, name)
        self._take(count)
        self._brackets.at -= count
        if self._text[0] == "{":
            return self._switch_to(self._arguments)
        self._emit(ARGUMENTS, "{}")
        return self._switch_to(self._after_call)

    def _whole(self, read: Any) -> bool:
        if isinstance(read, dict):
            read = read["function"] if isinstance(read.get("function"), dict) else read
            name = str(read.get("name") or read.get("tool_name") or "")
            arguments = read.get("arguments", read.get("parameters"))
            if arguments is None and name in self._tools:
                arguments = {}
            elif isinstance(arguments, str):
                arguments = _parse_json(arguments)
            if name and isinstance(arguments, dict):
                self._emit(CALL, name)
                self._emit(ARGUMENTS, json.dumps(arguments, ensure_ascii=False))
                self._take(self._brackets.at)
                return self._switch_to(self._after_call)
        return self._refuse(self._begin + 1)

    def _arguments(self) -> bool:
        brackets = self._brackets
        try:
            while brackets.next(self._text):
                if brackets.depth == self._depth:
                    return self._end_arguments() and self._switch_to(
                        self._trailer if self._depth else self._after_call
                    )
        except BrokenCall:
            return self._end_arguments() and self._switch_to(self._after_call)
        self._end_arguments()
        return False

    def _end_arguments(self) -> bool:
        self._emit_unread(ARGUMENTS, self._brackets.at)
        self._brackets.at = 0
        return True

    def _trailer(self) -> bool:
        """Read the rest of an object after its arguments, such as an ID."""
        try:
            while self._brackets.next(self._text) and self._brackets.at <= HELD:
                if not self._brackets.depth:
                    self._take(self._brackets.at)
                    return self._switch_to(self._after_call)
        except BrokenCall:  # a missing bracket
            return self._switch_to(self._after_call)
        return len(self._text) > HELD and self._switch_to(self._content)


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _spaces(text: str, at: int) -> int:
    """Return the position of the first character that is not white space, or of the limit."""
    while at < min(len(text), MAX_START_LENGTH) and text[at].isspace():
        at += 1
    return at
