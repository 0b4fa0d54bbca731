"""Calls as calls of Python: Llama 3.2 and 4, LFM 2, OLMo 3 and Gemma."""

import ast
import json
import re
from typing import Any

from .brackets import Brackets, BrokenCall
from .parser import ARGUMENTS, CALL, HELD, TEXT, CallParser

NAME = r"[A-Za-z_][\w.\-]*"
LONGEST_HEAD = 256
LISTED = re.compile(rf"\s*\[\s*({NAME}\()")
MARKED = re.compile(rf"\s*\[?\s*({NAME}\()")
"""The same behind a marker, where each call may be a line."""
NEXT = re.compile(rf"\s*,?\s*({NAME}\()")
PARTIAL = re.compile(rf"\s*[\[,]?\s*(?:{NAME})?")
"""What may become one of them."""
OPENS = ("<|python_start|>", "<|tool_call_start|>", "<function_calls>", "```tool_code")
ENDS = ("]", "<|python_end|>", "<|tool_call_end|>", "</function_calls>", "```")


class Pythonic(CallParser):
    """`[f(a=1, b='x'), g()]` at the beginning, or behind a marker. A call is given when it ends."""

    _brackets = Brackets(0)
    _begin = 0
    """Where the call begins, behind what announces it."""

    def _start(self) -> bool:
        bare = self._text[:LONGEST_HEAD].lstrip()
        decided = bare or len(self._text) >= LONGEST_HEAD
        return bool(decided) and self._go(self._listed if bare[:1] == "[" else self._content)

    def _content(self) -> bool:
        self._begin = len(self._give_up_to(TEXT, *OPENS))
        return bool(self._begin) and self._go(self._marked)

    def _listed(self) -> bool:
        return self._seek(LISTED)

    def _marked(self) -> bool:
        return self._seek(MARKED)

    def _seek(self, pattern: re.Pattern[str]) -> bool:
        """Go on with a call, or with text if none follows."""
        text = self._text
        if head := pattern.match(text, self._begin, LONGEST_HEAD):
            self._begin, self._brackets = head.start(1), Brackets(head.end() - 1, python=True)
            return self._go(self._call)
        undecided = len(text) < LONGEST_HEAD and PARTIAL.fullmatch(text, self._begin)
        return not undecided and self._refuse()

    def _refuse(self) -> bool:
        """What was announced is no call: give the announcement as text."""
        self._give(TEXT, self._begin)
        return self._go(self._content)

    def _call(self) -> bool:
        text, brackets = self._text, self._brackets
        try:
            while brackets.next(text) and brackets.at <= HELD:
                if not brackets.depth:
                    name, arguments = read_call(text[self._begin : brackets.at].strip())
                    self._say(CALL, name)
                    self._say(ARGUMENTS, arguments)
                    self._take(brackets.at)
                    return self._go(self._behind)
        except BrokenCall:
            return self._refuse()
        return len(text) > HELD and self._refuse()

    def _behind(self) -> bool:
        if not self._skip_space():
            return False
        self._begin = 0
        undecided = any(each.startswith(self._text) for each in ENDS if each != self._text)
        ended = self._text.startswith(ENDS)
        return not undecided and (self._go(self._end) if ended else self._seek(NEXT))

    def _end(self) -> bool:
        return self._skip_ends(ENDS, self._content)


def read_call(text: str) -> tuple[str, str]:
    """The name and the arguments, as JSON, of a call. Raises BrokenCall."""
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
    """Reads `true`, `false` and `null`, which models take from JSON."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        values = {"true": True, "false": False, "null": None}
        return ast.Constant(values[node.id]) if node.id in values else node
