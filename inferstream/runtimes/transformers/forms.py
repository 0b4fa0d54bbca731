"""Streams whose texts keep to a grammar: they take part in the steps once it is ready."""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from typing import Any

from ..grammars.matching import FormedText, Grammars
from .stream import TokenStream

MOMENT = 0.05
"""Seconds of a step in which there is nothing to do but to wait for a grammar."""


class Forms:
    """The grammars of a model, and the streams that wait for theirs. The thread of the steps calls it."""

    def __init__(self, tokens: Callable[[], Any]) -> None:
        self._grammars = Grammars(tokens)
        self.usable = self._grammars.usable
        self.waiting: dict[TokenStream, Any] = {}
        """Futures of the grammars that are not ready."""
        self._names: dict[TokenStream, str] = {}
        """What their clients ask for them by."""

    def begin(self, stream: TokenStream, form: str, name: str) -> None:
        """Let a stream wait for the grammar of a form. Raises what `Grammars.begin` does."""
        self.waiting[stream] = self._grammars.begin(form, name)
        self._names[stream] = name

    def settle(self, states: Sequence[TokenStream]) -> dict[TokenStream, Exception]:
        """Give the grammars that are ready to their streams, and return the streams whose forms are wrong.

        Waits a moment where no other stream of the step could do anything.
        """
        if self.waiting.keys() >= {*states}:
            wait(self.waiting.values(), MOMENT, FIRST_COMPLETED)
        failed: dict[TokenStream, Exception] = {}
        for stream, future in [*self.waiting.items()]:
            if not future.done():
                continue
            del self.waiting[stream]
            name = self._names.pop(stream)
            if (error := future.exception()) is None:
                stream.writing = FormedText(future.result().deep_copy(), name)
            else:
                failed[stream] = error
        return failed

    def leave(self, stream: TokenStream) -> None:
        self.waiting.pop(stream, None)
        self._names.pop(stream, None)

    def close(self) -> None:
        self._grammars.close()
