"""Serialises responses in the TGI format."""

from collections.abc import Sequence
from typing import Any

import orjson

from inferstream.errors import InferstreamError

from ..reader import LENGTH, TextReader
from ..text_dialect import TextFormat
from .errors import error_object
from .tokens import Decided, DecidedTokens

ENDED = "eos_token"


class TgiFormat(TextFormat):
    """Writes one event per token. `prompt` precedes the generated text and is empty unless requested.

    A response at `/` is a list. Of several sequences, the one with the most probable tokens is returned.
    """

    def __init__(self, texts: int, *, details: bool, prompt: str, seed: int | None, listed: bool) -> None:
        self._tokens = [DecidedTokens() for _ in range(texts)]
        self._details = details
        self._prompt = prompt
        self._seed = seed
        self._listed = listed
        self._index = 0
        self._pieces: list[str] = []
        """The streamed text so far."""
        self._collected: list[list[Decided]] = [[] for _ in range(texts)]

    def piece(self, index: int, text: str, reader: TextReader) -> bytes:
        tokens = self._tokens[index].decide(text, reader)
        return self._event(tokens[0]) if len(tokens) == 1 else b"".join(map(self._event, tokens))

    def last(self, index: int, text: str, reader: TextReader) -> bytes:
        tokens = self._tokens[index].finish(text, reader)
        reason = finish_reason(reader)
        last = tokens.pop() if tokens else END
        events = [self._event(token) for token in tokens]
        self._pieces.append(last.text)
        document: dict[str, Any] = {
            "index": self._index + 1,
            "token": _token(last, special=reason == ENDED and not last.text),
            **({"top_tokens": _top(last)} if last.top else {}),
            "generated_text": self._prompt + "".join(self._pieces),
            "details": None,
        }
        if self._details:
            document["details"] = {
                "finish_reason": reason,
                "generated_tokens": reader.completion_count,
                "input_length": reader.prompt_tokens or 0,
                "seed": self._seed,
            }
        events.append(_data(document))
        return b"".join(events)

    def closing(self, readers: Sequence[TextReader]) -> bytes:
        return b""

    def collect(self, index: int, text: str, reader: TextReader) -> None:
        self._collected[index] += self._tokens[index].decide(text, reader)

    def whole(self, texts: Sequence[str], readers: Sequence[TextReader]) -> bytes:
        for index, collected in enumerate(self._collected):
            collected += self._tokens[index].release("")
        order = sorted(range(len(texts)), key=lambda index: -_mean_logprob(self._collected[index]))
        sequences = [self._sequence(texts[index], index, readers[index]) for index in order]
        best = sequences[0]
        document: dict[str, Any] = {"generated_text": best.pop("generated_text")}
        if self._details:
            document["details"] = best
            if len(sequences) > 1:
                best["best_of_sequences"] = sequences[1:]
        return orjson.dumps([document] if self._listed else document)

    def _sequence(self, text: str, index: int, reader: TextReader) -> dict[str, Any]:
        tokens = self._collected[index]
        reason = finish_reason(reader)
        sequence: dict[str, Any] = {
            "finish_reason": reason,
            "generated_text": self._prompt + text,
            "generated_tokens": reader.completion_count,
            "seed": self._seed,
            "prefill": [],
            "tokens": list_tokens(tokens, reason),
        }
        if any(token.top for token in tokens):
            sequence["top_tokens"] = [_top(token) for token in tokens]
        return sequence

    def failure(self, error: InferstreamError) -> bytes:
        return _data(error_object(error))

    def _event(self, token: Decided) -> bytes:
        self._index += 1
        text, id, logprob, top, _ = token
        self._pieces.append(text)
        return EVENT % (
            self._index,
            id or 0,
            orjson.dumps(text),
            orjson.dumps(logprob or 0.0),
            b'"top_tokens":%b,' % orjson.dumps(_top(token)) if top else b"",
        )


EVENT = (
    b'data:{"index":%d,"token":{"id":%d,"text":%b,"logprob":%b,"special":false},'
    b'%b"generated_text":null,"details":null}\n\n'
)
"""The event of a token. Only the values differ between tokens."""

END = Decided("", None, None, {}, 0.0)
"""Placeholder for the end token, if the model yields none."""


def finish_reason(reader: TextReader) -> str:
    """Return the TGI finish reason."""
    if reader.stopped:
        return "stop_sequence"
    return LENGTH if reader.finish_reason == LENGTH else ENDED


def list_tokens(tokens: Sequence[Decided], reason: str) -> list[dict[str, Any]]:
    """Serialise all tokens of a text. The last one is special if it ended the text without adding to it."""
    ended = reason == ENDED
    return [_token(token, ended and token is tokens[-1] and not token.text) for token in tokens]


def _data(document: dict[str, Any]) -> bytes:
    return b"data:" + orjson.dumps(document) + b"\n\n"


def _token(token: Decided, special: bool = False) -> dict[str, Any]:
    """Serialise a token. Missing numbers are 0, because clients require them."""
    return {"id": token.id or 0, "text": token.text, "logprob": token.logprob or 0.0, "special": special}


def _top(token: Decided) -> list[dict[str, Any]]:
    return [
        {"id": 0, "text": text, "logprob": logprob, "special": False} for text, logprob in token.top.items()
    ]


def _mean_logprob(tokens: Sequence[Decided]) -> float:
    known = [token.logprob for token in tokens if token.logprob is not None]
    return sum(known) / len(known) if known else 0.0
