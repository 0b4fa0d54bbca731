"""Serialises responses as the specification of the protocol does (`generate_rest.yaml`)."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from inferstream.errors import InferstreamError
from inferstream.ext import sse

from ..reader import TextReader
from ..text_dialect import TextFormat
from ..tgi.formats import END, finish_reason, list_tokens
from ..tgi.tokens import Decided, DecidedTokens


class OipFormat(TextFormat):
    """Writes text together with `names`, the name and version of the model.

    With `details`, a complete response and the last event of a stream contain the finish reason and the
    tokens. Earlier events have no details, because the specification requires a finish reason in them.
    """

    def __init__(self, names: Mapping[str, str], details: bool) -> None:
        self._names = names
        self._decided = DecidedTokens() if details else None
        self._tokens: list[Decided] = []

    def piece(self, index: int, text: str, reader: TextReader) -> bytes:
        self.collect(index, text, reader)
        return sse.event(self._document(text)) if text else b""

    def last(self, index: int, text: str, reader: TextReader) -> bytes:
        if self._decided is None:
            return self.piece(index, text, reader)
        self._tokens += self._decided.finish(text, reader)
        details = self._details(reader)
        details["token"] = (details["logprobs"] or list_tokens([END], details["finish_reason"]))[-1]
        return sse.event(self._document(text, details=details))

    def closing(self, readers: Sequence[TextReader]) -> bytes:
        return b""

    def collect(self, index: int, text: str, reader: TextReader) -> None:
        if self._decided is not None:
            self._tokens += self._decided.decide(text, reader)

    def whole(self, texts: Sequence[str], readers: Sequence[TextReader]) -> bytes:
        if self._decided is None:
            return self._document(texts[0])
        self._tokens += self._decided.release("")
        return self._document(texts[0], details=self._details(readers[0]))

    def failure(self, error: InferstreamError) -> bytes:
        return sse.event(orjson.dumps({"error": error.message}))

    def _document(self, text: str, **more: Any) -> bytes:
        return orjson.dumps({"text_output": text, **self._names, **more})

    def _details(self, reader: TextReader) -> dict[str, Any]:
        reason = finish_reason(reader)
        return {"finish_reason": reason, "logprobs": list_tokens(self._tokens, reason)}
