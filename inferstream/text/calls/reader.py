"""`CallReader`: the texts of a model whose calls and reasoning are part of its text."""

from collections.abc import Sequence
from secrets import token_hex

from ..reader import TextReader
from .parser import ARGUMENTS, CALL, REASONING, TEXT, CallParser, Chain, Delta


class CallReader(TextReader):
    """Reads texts as `TextReader` does, and takes calls and reasoning out of them.

    Where the client takes one call at a time, the text ends with the first. Without `thoughts` reasoning is left out.
    """

    __slots__ = ("_calls", "_parallel", "_parser", "_thoughts")

    def __init__(
        self,
        parser: CallParser | Chain,
        parallel: bool,
        thoughts: bool,
        stop: Sequence[str] = (),
        max_tokens: int | None = None,
        with_logprobs: bool = False,
    ) -> None:
        super().__init__(stop, max_tokens, with_logprobs)
        self._parser = parser
        self._parallel = parallel
        self._thoughts = thoughts
        self._calls = 0

    def _shown(self, text: str) -> str:
        shown = self._read(self._parser.push(super()._shown(text)))
        # A text that has ended is not asked for its end.
        return shown if self.finish_reason is None else shown + self._read(self._parser.finish())

    def end(self) -> str:
        text = self._read(self._parser.push(super().end()))
        return text + self._read(self._parser.finish())

    def _read(self, deltas: Sequence[Delta]) -> str:
        """The text, with all else laid down."""
        text = ""
        for kind, piece in deltas:
            if kind == REASONING:
                self.reasoning += piece if self._thoughts else ""
            elif kind == CALL:
                self._call(piece)
            elif not self._parallel and self._calls > 1:
                continue
            elif kind == TEXT:
                text += piece
            elif kind == ARGUMENTS:
                self.tool_calls.append({"index": self._calls - 1, "function": {"arguments": piece}})
        return text

    def _call(self, name: str) -> None:
        self._calls += 1
        if self._calls > 1 and not self._parallel:
            self.finish_reason = self.finish_reason or "tool_calls"
            return
        # Nine letters and digits, because templates of Mistral take no other ids.
        call = {"index": self._calls - 1, "id": token_hex(5)[:9], "type": "function"}
        self.tool_calls.append({**call, "function": {"name": name, "arguments": ""}})
