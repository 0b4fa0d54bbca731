"""Messages in channels, as gpt-oss writes them: analysis is reasoning, and a message to a function is a call."""

import re

from .parser import ARGUMENTS, CALL, REASONING, TEXT, CallParser, Delta

START, CHANNEL, MESSAGE = "<|start|>", "<|channel|>", "<|message|>"
ENDS = ("<|end|>", "<|call|>", "<|return|>")
HEADER = re.compile(r"(?:<\|(?:start|channel|constrain|end)\|>[^<]*+)*")
"""What is before a message, where models repeat marks. The last channel is that of the message."""
NAMED = re.compile(r"<\|channel\|>\s*(\w*)")
FUNCTION = re.compile(r"\bto=(functions\.)?([\w.\-]{1,128})")
LONGEST_HEADER = 512


class Harmony(CallParser):
    """`<|channel|>commentary to=functions.f<|message|>{}<|call|>`."""

    _kind = TEXT

    def finish(self, cut: bool = False) -> list[Delta]:
        if cut and self._state == self._header:
            self._text = ""
        return super().finish(cut)

    def _start(self) -> bool:
        return bool(self._give_up_to(TEXT, START, CHANNEL)) and self._go(self._header)

    def _header(self) -> bool:
        end = self._text.find(MESSAGE, 0, LONGEST_HEADER)
        header = HEADER.fullmatch(self._text, 0, end) if end >= 0 else None
        if header is None:
            if end < 0 and len(self._text) < LONGEST_HEADER:
                return False
            self._give(TEXT, len("<|"))
            return self._go(self._start)
        self._kind = REASONING if NAMED.findall(header[0])[-1:] == ["analysis"] else TEXT
        function = FUNCTION.search(header[0])
        if function and (function[1] or function[2] in self._tools):
            self._say(CALL, function[2])
            self._kind = ARGUMENTS
        self.rest = self._kind
        self._take(end + len(MESSAGE))
        return self._go(self._body)

    def _body(self) -> bool:
        marker = self._give_up_to(self._kind, START, CHANNEL, *ENDS)
        if not marker:
            return False
        if marker in ENDS:
            self._take(len(marker))
        self.rest = TEXT
        return self._go(self._start)
