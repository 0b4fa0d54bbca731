"""Calls as tags: Qwen 3 Coder."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .parser import ARGUMENTS, CALL, HELD, TEXT, CallParser

OPEN, CLOSE = "<tool_call>", "</tool_call>"
HEAD = re.compile(r"<tool_call>\s*<function=([^<>\s]{1,128})>")
LONGEST_HEAD = 256
PARTIAL_HEAD = re.compile(r"<tool_call>\s*(?:<[^<>\s]*)?")
PARAMETER = re.compile(r"<parameter=([^<>\s]{1,128})>(.*?)</parameter>", re.DOTALL)
OPENING = re.compile(r"<parameter=[^<>\s]{1,128}>")
PARTIAL_OPENING = re.compile(r"<parameter=[^<>\s]{0,128}")
END, BEGIN = "</function>", "<parameter="


class Coder(CallParser):
    """`<tool_call><function=f><parameter=a>1</parameter></function></tool_call>`. A parameter is given when it ends.

    The schemas of the tools say which parameters are no texts.
    """

    def __init__(self, tools: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__()
        self._tools = {name: types for tool in tools for name, types in _types(tool).items()}
        self._types: Mapping[str, Any] = {}
        self._before = "{"
        self._searched = 0
        """Characters of the unread text that hold no end of a parameter."""

    def _start(self) -> bool:
        return bool(self._give_up_to(TEXT, OPEN)) and self._go(self._opened)

    def _opened(self) -> bool:
        text = self._text
        if head := HEAD.match(text, 0, LONGEST_HEAD):
            self._say(CALL, head[1])
            self._types = self._tools.get(head[1], {})
            self._before = "{"
            self._take(head.end())
            return self._go(self._parameters)
        if len(text) < LONGEST_HEAD and PARTIAL_HEAD.fullmatch(text):
            return False
        self._give(TEXT, len(OPEN))
        return self._go(self._start)

    def _parameters(self) -> bool:
        if not self._skip_space():
            return False
        text = self._text
        if text.startswith(END):
            self._take(len(END))
            return self._close(self._behind)
        if OPENING.match(text):
            end = text.find("</parameter>", max(0, self._searched - len("</parameter>")), HELD)
            if end >= 0 and (parameter := PARAMETER.match(text)) is not None:
                self._searched = 0
                self._parameter(parameter[1], parameter[2])
                self._take(parameter.end())
                return True
            self._searched = len(text)
            return len(text) >= HELD and self._close(self._start)
        if END.startswith(text) or BEGIN.startswith(text) or PARTIAL_OPENING.fullmatch(text):
            return False
        return self._close(self._start)

    def _parameter(self, name: str, value: str) -> None:
        written = json.dumps(_value(value.removeprefix("\n").removesuffix("\n"), self._types.get(name)))
        self._say(ARGUMENTS, f"{self._before}{json.dumps(name)}: {written}")
        self._before = ", "

    def _close(self, state: Any) -> bool:
        """End the arguments, which are an object even where what follows is no call any more."""
        self._searched = 0
        self._say(ARGUMENTS, "{}" if self._before == "{" else "}")
        return self._go(state)

    def _behind(self) -> bool:
        return self._skip_end(CLOSE, self._space)

    def _space(self) -> bool:
        return self._skip_space() and self._go(self._start)


def _types(tool: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The type of each parameter of a tool, by the name of the tool."""
    function = tool.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return {}
    parameters = function.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    types = properties.items() if isinstance(properties, dict) else ()
    return {
        function["name"]: {name: each.get("type") if isinstance(each, dict) else None for name, each in types}
    }


def _value(text: str, kind: Any) -> Any:
    """A parameter in the type that its schema says; the text where it has none or cannot be read."""
    if kind is None or kind == "string":
        return text
    try:
        return json.loads(
            {"True": "true", "False": "false", "None": "null"}.get(text, text), parse_constant=_no
        )
    except (ValueError, RecursionError):
        return text


def _no(constant: str) -> Any:
    raise ValueError(constant)
