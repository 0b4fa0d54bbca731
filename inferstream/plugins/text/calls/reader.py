"""`CallReader`: a `TextReader` for models that write tool calls and reasoning as part of their text."""

from collections.abc import Sequence

from ..reader import LENGTH, TextReader
from .parser import CALL, ID, REASONING, TEXT, CallParser, Chain, Delta


class CallReader(TextReader):
    """Extracts tool calls and reasoning from the text. Stop strings apply only to the rest.

    If `parallel` is false, the text ends after the first call. If `thoughts` is false, reasoning is dropped.
    """

    __slots__ = ("_call", "_first", "_id", "_parallel", "_parser", "_thoughts")

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
        self._first = parser.first if isinstance(parser, Chain) else parser
        self._parallel = parallel
        self._thoughts = thoughts
        self._call = -1
        self._id: str | None = None
        """The ID of the next call, if the model writes one."""

    def _filter_text(self, text: str) -> str:
        before = self._first.rest
        deltas = self._parser.push(text)
        if before == self._first.rest == REASONING or any(kind == REASONING for kind, _ in deltas):
            self.reasoning_tokens = (self.reasoning_tokens or 0) + 1
        if self.finish_reason is not None:  # `end` is not called after the text has finished
            cut = self.finish_reason == LENGTH
            deltas += self._parser.push(self._take_incomplete()) + self._parser.finish(cut)
        shown = self._read(deltas)
        return shown if self.finish_reason is None else shown + self._flush()

    def end(self) -> str:
        text = self._read(self._parser.push(self._take_incomplete()) + self._parser.finish())
        return text + super().end()

    def _read(self, deltas: Sequence[Delta]) -> str:
        """Return the visible text, and record calls and reasoning."""
        text = ""
        for kind, piece in deltas:
            if kind == TEXT:
                text += self._hold_back_stop(piece) if self._stop else piece
                if self.stopped:
                    break
                continue
            text, self._held = text + self._held, ""
            if kind == REASONING:
                self.reasoning += piece if self._thoughts else ""
            elif kind == ID:
                self._id = piece
            elif kind != CALL:
                self._calls.append_arguments(self._call, piece)
            elif self._call >= 0 and not self._parallel:
                self.finish_reason = self.finish_reason or "tool_calls"
                break
            else:
                self._call, self._id = self._calls.begin(piece, self._id), None
        return text
