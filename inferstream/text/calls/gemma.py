"""Calls as Gemma 4 and FunctionGemma write them, with marks of their own around texts."""

import json
import re

from .parser import ARGUMENTS, CALL, HELD, TEXT, CallParser

OPENS = ("<|tool_call>", "<start_function_call>")
ENDS = ("<tool_call|>", "<end_function_call>")
MARKS = ('<|"|>', "<escape>")
MARK = r'(?:<\|"\|>|<escape>)'
CLOSES = rf"{MARK}(?=\s*[,:}}\]])"
TEXTS = re.compile(rf"{MARK}(.*?){CLOSES}", re.S)
"""A text ends with a mark that something of the object follows; any other mark is a quote in the text."""
HEAD = re.compile(r"<[^<>]*>\s*call:\s*([\w.\-]{1,128})\s*(?=\{)")
WORD = re.compile(r"""\"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s,:{}\[\]"'][^,:{}\[\]"']*""")
"""A key, or a value without marks: a constant, a number, a bare text or one in other quotes."""
LONGEST_HEAD = 256


class Gemma(CallParser):
    """`<|tool_call>call:f{a:<|"|>x<|"|>,n:[1]}<tool_call|>`. A call is given when its object ends."""

    _at = 0
    """Behind the last bracket that ends no object."""

    def _start(self) -> bool:
        self._at = 0
        return bool(self._give_up_to(TEXT, *OPENS)) and self._go(self._call)

    def _call(self) -> bool:
        text = self._text
        if (head := HEAD.match(text, 0, LONGEST_HEAD)) is None:
            return (len(text) >= LONGEST_HEAD or "{" in text) and self._refuse()
        while (end := text.find("}", max(self._at, head.end()), HELD) + 1) > 0:
            self._at = end
            last = max(text.rfind(mark, 0, end) for mark in MARKS)
            if last >= 0 and not re.compile(CLOSES).match(text, last):
                continue  # it is within a text
            parts = TEXTS.split(text[head.end() : end])
            bare = "".join(parts[::2])
            if not re.search(MARK, bare) and len(re.findall(r"[{[]", bare)) <= len(
                re.findall(r"[\]}]", bare)
            ):
                return self._read(head[1], parts, end)
        return len(text) > HELD and self._refuse()

    def _read(self, name: str, parts: list[str], end: int) -> bool:
        parts[1::2] = [json.dumps(re.sub(MARK, '"', part)) for part in parts[1::2]]
        parts[::2] = [WORD.sub(_json, part) for part in parts[::2]]
        try:
            arguments = json.dumps(json.loads("".join(parts)))
        except (ValueError, RecursionError):
            return self._refuse()
        self._say(CALL, name)
        self._say(ARGUMENTS, arguments)
        self._take(end)
        return self._go(self._behind)

    def _refuse(self) -> bool:
        """What was announced is no call: give the announcement as text."""
        self._give(TEXT, 1)
        return self._go(self._start)

    def _behind(self) -> bool:
        return self._skip_ends(ENDS, self._start)


def _json(word: re.Match[str]) -> str:
    text = word[0].strip()
    if text[0] == "'":
        return json.dumps(text[1:-1].replace("\\'", "'"))
    try:
        json.loads(text)
    except ValueError:
        return json.dumps(text)
    return text
