"""Tool calls in tags: Qwen 3 Coder, Nemotron 3 and Seed, MiniMax M2, DeepSeek V3.2, GLM."""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from .brackets import BrokenCall
from .parser import ARGUMENTS, CALL, HELD, TEXT, CallParser, Delta, Tools
from .pythonic import read_call

MAX_HEAD_LENGTH = 256
# A possible prefix of a call or a parameter.
PARTIAL = re.compile(r"(?:<[^<>]*>[^<>]*){0,2}(?:<[^<>]*)?")


class Tags(NamedTuple):
    """The tags of a model family around a call and its parameters.

    - `opens`: possible starts of a call. `head` matches the opening tag, if any, and the name.
    - `parameter`: the start of a parameter with its name and, in some families, its `kind`: string or JSON.
    - `value_end`: the end of a parameter. `ends`: the end of a call and the tags that may follow.
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
    """Parses `<tool_call><function=f><parameter=a>1</parameter></function></tool_call>`.

    A parameter is emitted when it ends. The tool schemas determine which parameters are not strings.
    `<tool_call>` before an offered tool and the closing tags of parameters are optional, because models omit
    them.
    """

    def __init__(self, tags: Tags, tools: Tools = ()) -> None:
        super().__init__(tools)
        self._tags = tags
        self._schema: Any = None
        """The schema of the call's parameters."""
        self._before = "{"
        self._searched = 0
        """Number of unread characters already searched for the end of a parameter."""

    def finish(self, cut: bool = False) -> list[Delta]:
        if self._state == self._parameters and not cut:
            if opening := self._tags.parameter.match(self._text):
                self._parameter(opening, self._take(len(self._text))[opening.end() :])
            self._close(self._start)
        return super().finish(cut)

    def _start(self) -> bool:
        return bool(self._emit_until(TEXT, *self._tags.opens)) and self._switch_to(self._read_head)

    def _read_head(self) -> bool:
        text = self._text
        if (head := self._tags.head.match(text, 0, MAX_HEAD_LENGTH)) and (head[1] or head[2] in self._tools):
            self._emit(CALL, head[2])
            self._schema = self._tools.get(head[2], {}).get("parameters")
            self._before = "{"
            self._take(head.end())
            return self._switch_to(self._parameters)
        if head is None and len(text) < MAX_HEAD_LENGTH and PARTIAL.fullmatch(text):
            return False
        self._emit_unread(TEXT, 1)
        return self._switch_to(self._start)

    def _parameters(self) -> bool:
        if not self._skip_space():
            return False
        text, tags = self._text, self._tags
        if text.startswith(tags.ends):
            return self._close(self._after_call)
        if opening := tags.parameter.match(text):
            if end := tags.value_end.search(text, max(opening.end(), self._searched), HELD):
                self._searched = 0
                self._parameter(opening, text[opening.end() : end.start()])
                self._take(end.end())
                return True
            self._searched = len(text) - MAX_HEAD_LENGTH
            return len(text) >= HELD and self._close(self._start)
        if text[0] == "{" and self._before == "{":
            return self._body()
        undecided = text[0] == "<" and len(text) < MAX_HEAD_LENGTH and PARTIAL.fullmatch(text)
        return not undecided and self._close(self._after_call)

    def _body(self) -> bool:
        """Read all parameters as a single object, which Llama 3.1 and DeepSeek V3.2 may write."""
        ends = [at for each in self._tags.ends if (at := self._text.find(each, self._searched)) >= 0]
        if not ends:
            self._searched = max(len(self._text) - MAX_HEAD_LENGTH, 0)
            return len(self._text) >= HELD and self._close(self._start)
        read = _parse_value(self._text[: min(ends)].strip(), {"object"})
        if isinstance(read, dict):
            self._take(min(ends))
            if read:
                self._before = json.dumps(read)[:-1]
                self._emit(ARGUMENTS, self._before)
        return self._close(self._after_call)

    def _parameter(self, opening: re.Match[str], text: str) -> None:
        kinds = _kinds(_look_up(self._schema, "properties", opening[1]), self._schema)
        if kind := opening.groupdict().get("kind"):
            kinds = {"string"} if kind == "true" else kinds - {"string"} or {"object"}
        written = json.dumps(_parse_value(text.removeprefix("\n").removesuffix("\n"), kinds))
        self._emit(ARGUMENTS, f"{self._before}{json.dumps(opening[1])}: {written}")
        self._before = ", "

    def _close(self, state: Any) -> bool:
        """Close the arguments, which stay a valid object even if the rest of the call is invalid."""
        self._searched = 0
        self._emit(ARGUMENTS, "{}" if self._before == "{" else "}")
        return self._switch_to(state)

    def _after_call(self) -> bool:
        return self._skip_ends(self._tags.ends, self._start)


def _kinds(schema: Any, root: Any) -> set[str]:
    """Return the types that a schema allows, across enums, combinations and references.

    An empty set allows anything.
    """
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
            rest.append(_look_up(root, *str(each["$ref"]).split("/")[1:]))
    return kinds | {"integer"} if "number" in kinds else kinds


def _list(schema: dict[str, Any], keyword: str) -> list[Any]:
    return items if isinstance(items := schema.get(keyword), list) else []


def _look_up(value: Any, *keys: str) -> Any:
    """Return the value at a path of keys, or None if it is missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _parse_value(text: str, kinds: set[str]) -> Any:
    """Parse a parameter as one of its types. Returns the string unchanged if that fails."""
    if kinds <= {"string"}:
        return text
    try:
        value = json.loads(PYTHON.get(text, text), parse_constant=_reject_constant, strict=False)
    except (ValueError, RecursionError):
        if kinds.isdisjoint(("array", "object")):
            return text
        try:
            return json.loads(read_call(f"f(value={text})")[1])["value"]
        except BrokenCall:
            return text
    return value if "string" not in kinds or KINDS.get(type(value), "null") in kinds else text


def _reject_constant(constant: str) -> Any:
    raise ValueError(constant)
