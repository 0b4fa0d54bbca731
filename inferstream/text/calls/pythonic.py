"""Calls as a list of calls of Python: Llama 3.2 and 4."""

import ast
import json
import re
from typing import Any

from .brackets import Brackets, BrokenCall
from .parser import ARGUMENTS, CALL, HELD, TEXT, CallParser

HEAD = re.compile(r"\s*(?:<\|python_start\|>\s*)?\[\s*[A-Za-z_][\w.]*\(")
LONGEST_HEAD = 256
NEXT = re.compile(r"\s*,\s*[A-Za-z_][\w.]*\(")
PARTIAL = re.compile(r"\s*(?:<[|\w]*(?:\|>)?\s*)?(?:\[\s*(?:[A-Za-z_][\w.]*)?)?")
"""What may become a head."""
PARTIAL_NEXT = re.compile(r"\s*(?:,\s*(?:[A-Za-z_][\w.]*)?)?")
END = re.compile(r"\s*\]")
CLOSE = "<|python_end|>"


class Pythonic(CallParser):
    """`[f(a=1, b='x'), g()]` as the whole text. A call is given when it ends."""

    _brackets = Brackets(0)
    _begin = 0

    def _start(self) -> bool:
        text = self._text
        if head := HEAD.match(text, 0, LONGEST_HEAD):
            return self._open(text.index("[") + 1, head.end())
        if len(text) < LONGEST_HEAD and PARTIAL.fullmatch(text):
            return False
        return self._go(self._content)

    def _open(self, begin: int, arguments: int) -> bool:
        """Go on with a call that begins here, behind what announces it."""
        self._begin, self._brackets = begin, Brackets(arguments - 1, python=True)
        return self._go(self._call)

    def _call(self) -> bool:
        text, brackets = self._text, self._brackets
        try:
            while brackets.next(text) and brackets.at <= HELD:
                if not brackets.depth:
                    name, arguments = _read(text[self._begin : brackets.at].strip())
                    self._say(CALL, name)
                    self._say(ARGUMENTS, arguments)
                    self._take(brackets.at)
                    return self._go(self._behind)
        except BrokenCall:
            return self._go(self._content)
        return len(text) > HELD and self._go(self._content)

    def _behind(self) -> bool:
        text = self._text
        if following := NEXT.match(text, 0, LONGEST_HEAD):
            return self._open(text.index(",") + 1, following.end())
        if len(text) < LONGEST_HEAD and PARTIAL_NEXT.fullmatch(text):
            return False
        end = END.match(text, 0, LONGEST_HEAD)
        if end is None:
            return self._go(self._content)
        self._take(end.end())
        return self._go(self._end)

    def _end(self) -> bool:
        return self._skip_end(CLOSE, self._content)

    def _content(self) -> bool:
        self._give(TEXT, len(self._text))
        return False


def _read(text: str) -> tuple[str, str]:
    """The name and the arguments, as JSON, of a call. Raises BrokenCall."""
    try:
        call = ast.parse(text, mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise BrokenCall
        arguments: dict[str, Any] = {}
        for keyword in call.keywords:
            if keyword.arg is None:
                raise BrokenCall
            arguments[keyword.arg] = ast.literal_eval(_Constants().visit(keyword.value))
        return ast.unparse(call.func), json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError) as error:
        raise BrokenCall from error


class _Constants(ast.NodeTransformer):
    """Reads `true`, `false` and `null`, which models take from JSON."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        values = {"true": True, "false": False, "null": None}
        return ast.Constant(values[node.id]) if node.id in values else node
