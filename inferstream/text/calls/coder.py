"""Calls as tags: Qwen 3 Coder, Nemotron 3 and Seed, MiniMax M2, DeepSeek V3.2, GLM."""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from .brackets import BrokenCall
from .parser import ARGUMENTS, CALL, HELD, TEXT, CallParser, Delta, Tools
from .pythonic import read_call

LONGEST_HEAD = 256
# What may become the beginning of a call or of a parameter.
PARTIAL = re.compile(r"(?:<[^<>]*>[^<>]*){0,2}(?:<[^<>]*)?")


class Tags(NamedTuple):
    """What a family of models writes around a call and its parameters.

    - `opens`: how a call begins. `head` matches what announces it, if anything does, and its name.
    - `parameter`: the beginning of a parameter, with its name, and its `kind` if that is written: a text or JSON.
    - `value_end`: the end of a parameter. `ends`: how a call ends, and what may follow it.
    """

    opens: tuple[str, ...]
    head: re.Pattern[str]
    parameter: re.Pattern[str]
    value_end: re.Pattern[str]
    ends: tuple[str, ...]


DSML = "(?:｜DSML｜)?"
INVOKES = Tags(
    ("<minimax:tool_call>", "<invoke name=", "<｜DSML｜"),
    re.compile(
        rf"""(<(?:minimax:tool_call|｜DSML｜(?:function|tool)_calls)>\s*)?<{DSML}invoke name="([^<>"]{{1,128}})">"""
    ),
    re.compile(rf"""<{DSML}parameter name="([^<>"]{{1,128}})"(?: string="(?P<kind>true|false)")?>"""),
    re.compile(rf"</{DSML}parameter>|(?=\n<{DSML}parameter name=[^<>]{{1,128}}>|\n</{DSML}invoke>)"),
    (
        "</invoke>",
        "</minimax:tool_call>",
        *(f"</｜DSML｜{each}>" for each in ("invoke", "function_calls", "tool_calls")),
    ),
)

TAGS: Mapping[str, Tags] = {
    "qwen_coder": Tags(
        ("<tool_call>", "<seed:tool_call>", "<function="),
        re.compile(r"(<(?:seed:)?tool_call>\s*)?<function=([^<>\s]{1,128})>"),
        re.compile(r"<parameter=([^<>\s]{1,128})>"),
        re.compile(r"</parameter>|(?=\n<parameter=[^<>\s]{1,128}>|\n</function>)"),
        ("</function>", "</tool_call>", "</seed:tool_call>"),
    ),
    "minimax": INVOKES,
    "deepseek_v32": INVOKES,
    "glm": Tags(
        ("<tool_call>",),
        re.compile(r"(<tool_call>)\s*([^<>\s{]{1,128})\s*(?=<arg_key>|</tool_call>)"),
        re.compile(r"<arg_key>\s*([^<>]{1,128}?)\s*</arg_key>\s*<arg_value>"),
        re.compile(r"</arg_value>|(?=\n<arg_key>)"),
        ("</tool_call>",),
    ),
}

KINDS = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
PYTHON = {"True": "true", "False": "false", "None": "null"}


class TagParser(CallParser):
    """`<tool_call><function=f><parameter=a>1</parameter></function></tool_call>`. A parameter is given when it ends.

    The schemas of the tools say which parameters are no texts. Models leave tags out: a call of a tool on offer needs
    no `<tool_call>`, and a parameter no end.
    """

    def __init__(self, tags: Tags, tools: Tools = ()) -> None:
        super().__init__(tools)
        self._tags = tags
        self._schema: Any = None
        """That of the call's parameters."""
        self._before = "{"
        self._searched = 0
        """Characters of the unread text that hold no end of a parameter."""

    def finish(self, cut: bool = False) -> list[Delta]:
        if self._state == self._parameters and not cut:
            if opening := self._tags.parameter.match(self._text):
                self._parameter(opening, self._take(len(self._text))[opening.end() :])
            self._close(self._start)
        return super().finish(cut)

    def _start(self) -> bool:
        return bool(self._give_up_to(TEXT, *self._tags.opens)) and self._go(self._opened)

    def _opened(self) -> bool:
        text = self._text
        if (head := self._tags.head.match(text, 0, LONGEST_HEAD)) and (head[1] or head[2] in self._tools):
            self._say(CALL, head[2])
            self._schema = self._tools.get(head[2], {}).get("parameters")
            self._before = "{"
            self._take(head.end())
            return self._go(self._parameters)
        if head is None and len(text) < LONGEST_HEAD and PARTIAL.fullmatch(text):
            return False
        self._give(TEXT, 1)
        return self._go(self._start)

    def _parameters(self) -> bool:
        if not self._skip_space():
            return False
        text, tags = self._text, self._tags
        if text.startswith(tags.ends):
            return self._close(self._behind)
        if opening := tags.parameter.match(text):
            if end := tags.value_end.search(text, max(opening.end(), self._searched), HELD):
                self._searched = 0
                self._parameter(opening, text[opening.end() : end.start()])
                self._take(end.end())
                return True
            self._searched = len(text) - LONGEST_HEAD
            return len(text) >= HELD and self._close(self._start)
        if text[0] == "{" and self._before == "{":
            return self._body()
        undecided = text[0] == "<" and len(text) < LONGEST_HEAD and PARTIAL.fullmatch(text)
        return not undecided and self._close(self._behind)

    def _body(self) -> bool:
        """All parameters as one object, as Llama 3.1 and DeepSeek V3.2 may write them."""
        ends = [at for each in self._tags.ends if (at := self._text.find(each, self._searched)) >= 0]
        if not ends:
            self._searched = max(len(self._text) - LONGEST_HEAD, 0)
            return len(self._text) >= HELD and self._close(self._start)
        read = _value(self._text[: min(ends)].strip(), {"object"})
        if isinstance(read, dict):
            self._take(min(ends))
            if read:
                self._before = json.dumps(read)[:-1]
                self._say(ARGUMENTS, self._before)
        return self._close(self._behind)

    def _parameter(self, opening: re.Match[str], text: str) -> None:
        kinds = _kinds(_at(self._schema, "properties", opening[1]), self._schema)
        if kind := opening.groupdict().get("kind"):
            kinds = {"string"} if kind == "true" else kinds - {"string"} or {"object"}
        written = json.dumps(_value(text.removeprefix("\n").removesuffix("\n"), kinds))
        self._say(ARGUMENTS, f"{self._before}{json.dumps(opening[1])}: {written}")
        self._before = ", "

    def _close(self, state: Any) -> bool:
        """End the arguments, which are an object even where what follows is no call any more."""
        self._searched = 0
        self._say(ARGUMENTS, "{}" if self._before == "{" else "}")
        return self._go(state)

    def _behind(self) -> bool:
        return self._skip_ends(self._tags.ends, self._start)


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
        if kinds.isdisjoint(("array", "object")):
            return text
        try:
            return json.loads(read_call(f"f(value={text})")[1])["value"]
        except BrokenCall:
            return text
    return value if "string" not in kinds or KINDS.get(type(value), "null") in kinds else text


def _no(constant: str) -> Any:
    raise ValueError(constant)
