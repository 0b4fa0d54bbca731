"""Streams with a grammar. They join no step until the grammar is compiled."""

from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from typing import Any

from ..token_stream import TokenStream
from .matching import Grammars

MOMENT = 0.05
"""Seconds that a step waits for a grammar if no stream can advance."""


class Forms:
    """The grammars of a model and the streams that wait for them. Must be called from the step thread."""

    def __init__(self, grammars: Grammars) -> None:
        self._grammars = grammars
        self.usable = grammars.usable
        self.waiting: dict[TokenStream, Any] = {}
        """Futures of the grammars that are not ready."""
        self._names: dict[TokenStream, str] = {}
        """Request fields of the grammars."""

    def begin(self, stream: TokenStream, form: str, name: str) -> None:
        """Make a stream wait for the grammar of a format. Raises InvalidRequest or Overloaded."""
        self.waiting[stream] = self._grammars.begin(form, name)
        self._names[stream] = name

    def assign_grammars(self, states: Sequence[TokenStream]) -> dict[TokenStream, Exception]:
        """Assign the compiled grammars to their streams, and return the streams whose format is invalid.

        Waits for a moment if no other stream can advance.
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
                stream.writing = self._grammars.restrict(future.result(), name)
                for token in stream.tokens[stream.prompt_length :]:  # of a stream that continues
                    stream.writing.add_token(token)
            else:
                failed[stream] = error
        return failed

    def remove(self, stream: TokenStream) -> None:
        self.waiting.pop(stream, None)
        self._names.pop(stream, None)

    def close(self) -> None:
        self._grammars.close()
