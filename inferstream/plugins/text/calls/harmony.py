"""Messages in gpt-oss channels. Analysis is reasoning, and a message to a function is a tool call."""

import re

from .parser import ARGUMENTS, CALL, REASONING, TEXT, CallParser, Delta

START, CHANNEL, MESSAGE = "<|start|>", "<|channel|>", "<|message|>"
ENDS = ("<|end|>", "<|call|>", "<|return|>")
HEADER = re.compile(r"(?:<\|(?:start|channel|constrain|end)\|>[^<]*+)*")
"""The header of a message, in which models may repeat markers. The last channel applies."""
NAMED = re.compile(r"<\|channel\|>\s*(\w*)")
FUNCTION = re.compile(r"\bto=(functions\.)?([\w.\-]{1,128})")
MAX_HEADER_LENGTH = 512


class Harmony(CallParser):
    """Parses `<|channel|>commentary to=functions.f<|message|>{}<|call|>`."""

    _kind = TEXT

    def finish(self, cut: bool = False) -> list[Delta]:
        if cut and self._state == self._header:
            self._text = ""
        return super().finish(cut)

    def _start(self) -> bool:
        return bool(self._emit_until(TEXT, START, CHANNEL)) and self._switch_to(self._header)

    def _header(self) -> bool:
        end = self._text.find(MESSAGE, 0, MAX_HEADER_LENGTH)
        header = HEADER.fullmatch(self._text, 0, end) if end >= 0 else None
        if header is None:
            if end < 0 and len(self._text) < MAX_HEADER_LENGTH:
                return False
            self._emit_unread(TEXT, len("<|"))
            return self._switch_to(self._start)
        self._kind = REASONING if NAMED.findall(header[0])[-1:] == ["analysis"] else TEXT
        function = FUNCTION.search(header[0])
        if function and (function[1] or function[2] in self._tools):
            self._emit(CALL, function[2])
            self._kind = ARGUMENTS
        self.rest = self._kind
        self._take(end + len(MESSAGE))
        return self._switch_to(self._body)

    def _body(self) -> bool:
        marker = self._emit_until(self._kind, START, CHANNEL, *ENDS)
        if not marker:
            return False
        if marker in ENDS:
            self._take(len(marker))
        self.rest = TEXT
        return self._switch_to(self._start)
