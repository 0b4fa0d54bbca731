"""Calls as Gemma 4 and FunctionGemma write them, with marks of their own around texts."""

import json
import re

from .parser import ARGUMENTS, CALL, HELD, TEXT, CallParser

OPENS = ("<|tool_call>", "<start_function_call>")
ENDS = ("<tool_call|>", "<end_function_call>")
QUOTE = r'(?:<\|"\|>|<escape>)'
CLOSES = r"\s*[,:}\]]"
TEXTS = re.compile(rf"{QUOTE}(.*?){QUOTE}(?={CLOSES})", re.S)
"""A text ends with a mark that something of the object follows; any other mark is a quote in the text."""
HEAD = re.compile(r"<[^<>]*>\s*call:\s*([\w.\-]{1,128})\s*(?=\{)")
WORD = re.compile(r"""\"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s,:{}\[\]"'][^,:{}\[\]"']*""")
"""A key, or a value without marks: a constant, a number, a bare text or one in other quotes."""
PARTS = re.compile(rf"({QUOTE}{CLOSES})|({QUOTE})|[{{}}\[\]]")
LONGEST_HEAD = 256
LONGEST_PART = len("<escape>")


class Gemma(CallParser):
    """`<|tool_call>call:f{a:<|"|>x<|"|>,n:[1]}<tool_call|>`. A call is given when its object ends."""

    _at = _depth = 0
    """Behind the last part that is looked at, and the brackets that are open there."""
    _within = False
    """Whether that is within a text."""

    def _start(self) -> bool:
        self._at, self._depth, self._within = 0, 0, False
        return bool(self._give_up_to(TEXT, *OPENS)) and self._go(self._call)

    def _call(self) -> bool:
        text = self._text
        if (head := HEAD.match(text, 0, LONGEST_HEAD)) is None:
            return (len(text) >= LONGEST_HEAD or "{" in text) and self._refuse()
        self._at = max(self._at, head.end())
        while part := PARTS.search(text, self._at):
            if part[2] and not text[part.end() :].strip() and len(text) <= HELD:
                return False  # what follows the mark decides
            closes, mark = self._within and part[1], part[1] or part[2]
            self._at = part.end(2) if part[2] else part.end() - bool(part[1])
            if mark:
                self._within = not closes
            elif not self._within:
                self._depth += 1 if part[0] in "{[" else -1
                if not self._depth:
                    return self._read(head[1], head.end(), self._at)
        self._at = max(self._at, len(text) - LONGEST_PART + 1)
        return len(text) > HELD and self._refuse()

    def _read(self, name: str, begin: int, end: int) -> bool:
        parts = TEXTS.split(self._text[begin:end])
        parts[1::2] = [json.dumps(re.sub(QUOTE, '"', part)) for part in parts[1::2]]
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
