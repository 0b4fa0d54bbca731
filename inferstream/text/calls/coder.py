"""Calls as tags: Qwen 3 Coder."""

import json
import re
from typing import Any

from .parser import ARGUMENTS, CALL, HELD, TEXT, CallParser, Tools

OPEN, CLOSE = "<tool_call>", "</tool_call>"
BARE = "<function="
HEAD = re.compile(r"(<tool_call>\s*)?<function=([^<>\s]{1,128})>")
LONGEST_HEAD = 256
PARTIAL_HEAD = re.compile(r"<tool_call>\s*(?:<[^<>\s]*)?|<function=[^<>\s]{0,128}")
OPENING = re.compile(r"<parameter=([^<>\s]{1,128})>")
PARTIAL_OPENING = re.compile(r"<parameter=[^<>\s]{0,128}")
VALUE_END = re.compile(r"</parameter>|(?=\n<parameter=[^<>\s]{1,128}>|\n</function>)")
END, BEGIN = "</function>", "<parameter="

KINDS = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
PYTHON = {"True": "true", "False": "false", "None": "null"}


class Coder(CallParser):
    """`<tool_call><function=f><parameter=a>1</parameter></function></tool_call>`. A parameter is given when it ends.

    The schemas of the tools say which parameters are no texts. Models leave tags out: a call of a tool on offer needs
    no `<tool_call>`, and a parameter no end.
    """

    def __init__(self, tools: Tools = ()) -> None:
        super().__init__(tools)
        self._schema: Any = None
        """That of the call's parameters."""
        self._before = "{"
        self._searched = 0
        """Characters of the unread text that hold no end of a parameter."""

    def _start(self) -> bool:
        return bool(self._give_up_to(TEXT, OPEN, BARE)) and self._go(self._opened)

    def _opened(self) -> bool:
        text = self._text
        if (head := HEAD.match(text, 0, LONGEST_HEAD)) and (head[1] or head[2] in self._tools):
            self._say(CALL, head[2])
            self._schema = self._tools.get(head[2], {}).get("parameters")
            self._before = "{"
            self._take(head.end())
            return self._go(self._parameters)
        if len(text) < LONGEST_HEAD and PARTIAL_HEAD.fullmatch(text):
            return False
        self._give(TEXT, 1)
        return self._go(self._start)

    def _parameters(self) -> bool:
        if not self._skip_space():
            return False
        text = self._text
        if text.startswith(END):
            self._take(len(END))
            return self._close(self._behind)
        if opening := OPENING.match(text):
            if end := VALUE_END.search(text, max(opening.end(), self._searched), HELD):
                self._searched = 0
                self._parameter(opening[1], text[opening.end() : end.start()])
                self._take(end.end())
                return True
            self._searched = len(text) - LONGEST_HEAD
            return len(text) >= HELD and self._close(self._start)
        if END.startswith(text) or BEGIN.startswith(text) or PARTIAL_OPENING.fullmatch(text):
            return False
        return self._close(self._behind)

    def _parameter(self, name: str, value: str) -> None:
        schema = _at(self._schema, "properties", name)
        text = value.removeprefix("\n").removesuffix("\n")
        written = json.dumps(_value(text, _kinds(schema, self._schema)))
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


def _kinds(schema: Any, root: Any) -> set[str]:
    """The types of a schema, by what it names, refers to in the root and combines; none if it allows anything."""
    kinds: set[str] = set()
    seen: set[int] = set()
    rest = [schema]
    while rest:
        each = rest.pop()
        if not isinstance(each, dict) or id(each) in seen:
            continue
        seen.add(id(each))
        kinds.update(str(kind) for kind in _list(each, "type") or [each.get("type")] if kind)
        kinds.update(KINDS.get(type(value), "null") for value in _list(each, "enum"))
        kinds.update(["null"] if each.get("nullable") else [])
        rest += [*_list(each, "anyOf"), *_list(each, "oneOf"), *_list(each, "allOf")]
        if "$ref" in each:
            rest.append(_at(root, *str(each["$ref"]).split("/")[1:]))
    return kinds | {"integer"} if "number" in kinds else kinds


def _list(schema: dict[str, Any], keyword: str) -> list[Any]:
    return items if isinstance(items := schema.get(keyword), list) else []


def _at(value: Any, *keys: str) -> Any:
    """What is in an object of objects; None if it is not there."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _value(text: str, kinds: set[str]) -> Any:
    """A parameter in one of its types; the text where there is none, or it cannot be read."""
    if kinds <= {"string"}:
        return text
    try:
        value = json.loads(PYTHON.get(text, text), parse_constant=_no, strict=False)
    except (ValueError, RecursionError):
        return text
    return value if "string" not in kinds or KINDS.get(type(value), "null") in kinds else text


def _no(constant: str) -> Any:
    raise ValueError(constant)
