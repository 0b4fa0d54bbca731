"""Tool calls of Gemma 4 and FunctionGemma, whose strings have special quotation marks."""

import json
import re

from .parser import ARGUMENTS, CALL, HELD, TEXT, CallParser

OPENS = ("<|tool_call>", "<start_function_call>")
ENDS = ("<tool_call|>", "<end_function_call>")
MARKS = ('<|"|>', "<escape>")
MARK = r'(?:<\|"\|>|<escape>)'
CLOSES = rf"{MARK}(?=\s*[,:}}\]])"
TEXTS = re.compile(rf"{MARK}(.*?){CLOSES}", re.S)
"""A string in marks. Its closing mark precedes a delimiter, and other marks are quotes within the string."""
HEAD = re.compile(r"<[^<>]*>\s*call:\s*([\w.\-]{1,128})\s*(?=\{)")
WORD = re.compile(r"""\"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s,:{}\[\]"'][^,:{}\[\]"']*""")
"""A key or an unmarked value: a constant, a number, a bare string or a string in ordinary quotes."""
MAX_HEAD_LENGTH = 256


class Gemma(CallParser):
    """Parses `<|tool_call>call:f{a:<|"|>x<|"|>,n:[1]}<tool_call|>`. A call is emitted when complete."""

    _at = 0
    """Position after the last `}` that was checked."""

    def _start(self) -> bool:
        self._at = 0
        return bool(self._emit_until(TEXT, *OPENS)) and self._switch_to(self._call)

    def _call(self) -> bool:
        text = self._text
        if (head := HEAD.match(text, 0, MAX_HEAD_LENGTH)) is None:
            return (len(text) >= MAX_HEAD_LENGTH or "{" in text) and self._refuse()
        while (end := text.find("}", max(self._at, head.end()), HELD) + 1) > 0:
            self._at = end
            last = max(text.rfind(mark, 0, end) for mark in MARKS)
            if last >= 0 and not re.compile(CLOSES).match(text, last):
                continue  # within a string
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
        self._emit(CALL, name)
        self._emit(ARGUMENTS, arguments)
        self._take(end)
        return self._switch_to(self._after_call)

    def _refuse(self) -> bool:
        """Emit the marker as text, because no call follows."""
        self._emit_unread(TEXT, 1)
        return self._switch_to(self._start)

    def _after_call(self) -> bool:
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
