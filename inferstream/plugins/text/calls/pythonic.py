"""Tool calls in Python syntax: Llama 3.2 and 4, LFM 2, OLMo 3 and Gemma."""

import ast
import json
import re
from typing import Any

from .brackets import Brackets, BrokenCall
from .parser import ARGUMENTS, CALL, HELD, TEXT, CallParser

NAME = r"[A-Za-z_][\w.\-]*"
MAX_HEAD_LENGTH = 256
LISTED = re.compile(rf"\s*\[\s*({NAME}\()")
MARKED = re.compile(rf"\s*\[?\s*({NAME}\()")
"""A call after a marker, where each call may be on a separate line."""
NEXT = re.compile(rf"\s*,?\s*({NAME}\()")
PARTIAL = re.compile(rf"\s*[\[,]?\s*(?:{NAME})?")
"""A possible prefix of these patterns."""
OPENS = ("<|python_start|>", "<|tool_call_start|>", "<function_calls>", "```tool_code")
ENDS = ("]", "<|python_end|>", "<|tool_call_end|>", "</function_calls>", "```")


class Pythonic(CallParser):
    """Parses `[f(a=1, b='x'), g()]` at the start or after a marker. A call is emitted when it ends."""

    _brackets = Brackets(0)
    _begin = 0
    """Start of the call, after its marker."""

    def _start(self) -> bool:
        bare = self._text[:MAX_HEAD_LENGTH].lstrip()
        decided = bare or len(self._text) >= MAX_HEAD_LENGTH
        return bool(decided) and self._switch_to(self._seek_list if bare[:1] == "[" else self._content)

    def _content(self) -> bool:
        self._begin = len(self._emit_until(TEXT, *OPENS))
        return bool(self._begin) and self._switch_to(self._seek_marker)

    def _seek_list(self) -> bool:
        return self._seek(LISTED)

    def _seek_marker(self) -> bool:
        return self._seek(MARKED)

    def _seek(self, pattern: re.Pattern[str]) -> bool:
        """Continue with a call, or with text if none follows."""
        text = self._text
        if head := pattern.match(text, self._begin, MAX_HEAD_LENGTH):
            self._begin, self._brackets = head.start(1), Brackets(head.end() - 1, python=True)
            return self._switch_to(self._call)
        undecided = len(text) < MAX_HEAD_LENGTH and PARTIAL.fullmatch(text, self._begin)
        return not undecided and self._refuse()

    def _refuse(self) -> bool:
        """Emit the marker as text, because no call follows."""
        self._emit_unread(TEXT, self._begin)
        return self._switch_to(self._content)

    def _call(self) -> bool:
        text, brackets = self._text, self._brackets
        try:
            while brackets.next(text) and brackets.at <= HELD:
                if not brackets.depth:
                    name, arguments = read_call(text[self._begin : brackets.at].strip())
                    self._emit(CALL, name)
                    self._emit(ARGUMENTS, arguments)
                    self._take(brackets.at)
                    return self._switch_to(self._after_call)
        except BrokenCall:
            return self._refuse()
        return len(text) > HELD and self._refuse()

    def _after_call(self) -> bool:
        if not self._skip_space():
            return False
        self._begin = 0
        undecided = any(each.startswith(self._text) for each in ENDS if each != self._text)
        ended = self._text.startswith(ENDS)
        return not undecided and (self._switch_to(self._end) if ended else self._seek(NEXT))

    def _end(self) -> bool:
        return self._skip_ends(ENDS, self._content)


def read_call(text: str) -> tuple[str, str]:
    """Return the function name and the arguments as JSON. Raises BrokenCall."""
    name, _, rest = text.partition("(")
    if name == "print":
        return read_call(rest[:-1].strip())
    try:
        call = ast.parse(f"_({rest}", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise BrokenCall
        arguments: dict[str, Any] = {}
        for keyword in call.keywords:
            if keyword.arg is None:
                raise BrokenCall
            arguments[keyword.arg] = ast.literal_eval(_Constants().visit(keyword.value))
        return name, json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError) as error:
        raise BrokenCall from error


class _Constants(ast.NodeTransformer):
    """Accepts the JSON constants `true`, `false` and `null`, which models mix into Python."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        values = {"true": True, "false": False, "null": None}
        return ast.Constant(values[node.id]) if node.id in values else node
