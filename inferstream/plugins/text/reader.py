"""`TextReader`: turns the responses of a call into pieces of text."""

import codecs
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import orjson

from inferstream.errors import InvalidOutput
from inferstream.types import InferenceResponse, Parameters

from .calls.deltas import CallDeltas
from .spelling import spell

STOP = "stop"
LENGTH = "length"

LEAST_LOGPROB = -9999.0
"""The lowest log probability. OpenAI uses it for impossible tokens, because JSON has no infinity."""


class SingleValueForm(Protocol):
    """The common properties of a model's single-value responses."""

    @property
    def datatype(self) -> str: ...


class TokenLogprob(NamedTuple):
    """A token, its log probability, and the most likely tokens at its position."""

    token: str
    logprob: float | None
    """None for the first token of a prompt."""
    top: dict[str, float]


class TextReader:
    """Reads the text that each response adds, which may be empty, and detects the end of the text.

    A response is one token, unless the model counts tokens itself. The text ends when the model finishes, a
    stop string appears, or `max_tokens` responses with text have been read. Text that may be the start of a
    stop string is held back until the next response. Pieces never end within a character. Log probabilities
    are read only if `with_logprobs` is true, because a model may send them unrequested.

    Raises InvalidOutput if a response has no text.
    """

    __slots__ = (
        "_calls",
        "_decoder",
        "_half",
        "_held",
        "_max_tokens",
        "_stop",
        "_with_logprobs",
        "cached_tokens",
        "completion_tokens",
        "finish_reason",
        "least_tokens",
        "logprobs",
        "prompt",
        "prompt_tokens",
        "reasoning",
        "reasoning_tokens",
        "resumed",
        "stopped",
        "token_id",
        "tokens",
        "tool_calls",
    )

    def __init__(
        self, stop: Sequence[str] = (), max_tokens: int | None = None, with_logprobs: bool = False
    ) -> None:
        self._with_logprobs = with_logprobs
        self._stop = stop
        self._max_tokens = max_tokens or 0
        self.least_tokens = 0
        """Number of responses with text during which stop strings are ignored."""
        self._held = ""
        self._decoder: codecs.IncrementalDecoder | None = None
        self._half = b""
        """The first half of a UTF-16 surrogate pair at the end of the last text."""
        self.tokens = 0
        """Number of responses with text so far."""
        self.finish_reason: str | None = None
        """The reason why the text ended, or None before its end."""
        self.stopped = ""
        """The stop string that ended the text, or empty."""
        self.prompt_tokens: int | None = None
        self.completion_tokens: int | None = None
        """Token counts reported by the model. None if it reports none."""
        self.cached_tokens = 0
        """Prompt tokens that the model had in its cache, if it reports them."""
        self.resumed = False
        """Whether the text continues with other random numbers, and the client does not know it yet."""
        self.token_id: int | None = None
        """The ID of the last token, if the model reports it."""
        self.logprobs: list[TokenLogprob] = []
        """Log probabilities read since the list was last cleared."""
        self.prompt: list[TokenLogprob] = []
        """Log probabilities of the prompt, if requested."""
        self.tool_calls: list[Any] = []
        """Tool call deltas read since the list was last cleared, at most one per call."""
        self._calls = CallDeltas(self.tool_calls)
        self.reasoning = ""
        """Reasoning read since it was last cleared. Only some readers detect it."""
        self.reasoning_tokens: int | None = None
        """Reasoning tokens without the markers. None if the reader does not detect reasoning."""

    @property
    def completion_count(self) -> int:
        """Tokens of the text, as counted by the model, or one per response with text."""
        return self.tokens if self.completion_tokens is None else self.completion_tokens

    def value(self, form: SingleValueForm, response: InferenceResponse) -> str:
        if form.datatype != "BYTES":
            return self.tensors(response)
        self.token_id = None
        return self._count_token(self._decode_value(response.value))

    def tensors(self, response: InferenceResponse) -> str:
        outputs = response.outputs
        text = value = ""
        if outputs:
            tensor = outputs[0]
            if tensor.datatype != "BYTES":
                tensor = next((each for each in outputs if each.datatype == "BYTES"), tensor)
                if tensor.datatype != "BYTES":
                    raise InvalidOutput(
                        f'Model {response.model_name} answered "{tensor.name}" of {tensor.datatype}, not a text.'
                    )
            values = tensor._data.peek()
            if len(values) == 1:
                text = self._decode_value(value := values[0])
            else:
                text = value = self._decode(tensor.data.flat())
        self.token_id = None
        if response._parameters is not None:
            self._read_parameters(response._parameters, text, value)
        return self._count_token(text) if outputs else self._filter_text(text)

    def _count_token(self, text: str) -> str:
        """Count a token and return the text to emit."""
        self.tokens += 1
        if self.tokens == self._max_tokens and self.finish_reason is None:
            self.finish_reason = LENGTH
        return self._filter_text(text)

    def _filter_text(self, text: str) -> str:
        if self._stop:
            text = self._hold_back_stop(text)
        return text if self.finish_reason is None else text + self._flush()

    def end(self) -> str:
        """Return the text that was held back, after the model has finished. Sets the finish reason."""
        if self.finish_reason is None:
            self.finish_reason = STOP
        return self._flush()

    def _flush(self) -> str:
        """Return the text that was held back, and close the tool calls."""
        if self.finish_reason != LENGTH:
            self._calls.end()
        if self.stopped:
            return ""
        held, self._held = self._held, ""
        return held + self._take_incomplete()

    def _decode_value(self, value: Any) -> str:
        """Decode one value. Complete strings, the most common values, bypass the incremental decoder."""
        if self._decoder is None:
            try:
                if type(value) is str:
                    return value if value.isascii() or value.encode() else ""
                if type(value) is bytes:
                    return value.decode()
            except UnicodeError:
                pass
        return self._decode([value])

    def _decode(self, values: Sequence[Any]) -> str:
        """Decode values, and hold back an incomplete character at their end."""
        decoder = self._decoder
        if decoder is None:
            decoder = self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        encoded = (
            self._join_surrogates(value).encode() if isinstance(value, str) else bytes(value)
            for value in values
        )
        return decoder.decode(b"".join(encoded))

    def _join_surrogates(self, text: str) -> str:
        """Join UTF-16 surrogate pairs, including pairs across responses, and replace unpaired surrogates."""
        units = self._half + text.encode("utf-16-le", "surrogatepass")
        text, size = codecs.utf_16_le_decode(units, "replace", False)
        self._half = units[size:]
        return text

    def _take_incomplete(self) -> str:
        if self._decoder is None:
            return ""
        half, self._half = self._half, b""
        return self._decoder.decode(b"\xff" if half else b"", final=True)

    def _hold_back_stop(self, text: str) -> str:
        """Return the text up to the first stop string, and hold back a suffix that may start one."""
        if self.tokens <= self.least_tokens:
            return text
        if self._held:
            text = self._held + text
            self._held = ""
        end = decided = len(text)
        for stop in self._stop:
            if stop[0] not in text:  # nearly always
                continue
            if (at := text.find(stop)) >= 0:
                if at < end:
                    end, self.stopped = at, stop
            else:
                decided = min(decided, find_partial_stop(stop, text))
        if end < len(text):
            self.finish_reason = STOP
            return text[:end]
        self._held = text[decided:]
        return text[:decided]

    def _read_parameters(self, parameters: Parameters, text: str, value: Any) -> None:
        said = parameters.__pydantic_extra__
        if not said:
            return
        self.token_id = said.get("token_id")
        if (reason := said.get("finish_reason")) is not None:
            self.finish_reason = str(reason)
        if (prompt_tokens := said.get("prompt_tokens")) is not None:
            self.prompt_tokens = int(prompt_tokens)
            self.cached_tokens = int(said.get("cached_tokens", 0))
            self.resumed = bool(said.get("resumed"))
        if (completion_tokens := said.get("completion_tokens")) is not None:
            self.completion_tokens = int(completion_tokens)
        if self._with_logprobs and (logprob := said.get("logprob")) is not None:
            top = said.get("top_logprobs")
            token = said.get("token") or (spell(value) if type(value) is bytes else text)
            self.logprobs.append(_to_token_logprob(token, logprob, {} if top is None else orjson.loads(top)))
        if self._with_logprobs and (prompt := said.get("prompt_logprobs")) is not None:
            self.prompt = [_to_token_logprob(*each) for each in orjson.loads(prompt)]
        if (calls := said.get("tool_calls")) is not None:
            for call in orjson.loads(calls):
                self._calls.add(call)


def _to_token_logprob(token: str, logprob: float | None, top: dict[str, float]) -> TokenLogprob:
    others = {each: _finite(value) for each, value in top.items()}
    return TokenLogprob(token, None if logprob is None else _finite(logprob), others)


def _finite(logprob: float | None) -> float:
    return LEAST_LOGPROB if logprob is None else max(float(logprob), LEAST_LOGPROB)


def find_partial_stop(stop: str, text: str) -> int:
    """Return the start of the longest suffix of `text` that begins `stop`, or the length of `text`."""
    at = text.find(stop[0], max(0, len(text) - len(stop) + 1))
    while at >= 0 and not stop.startswith(text[at:]):
        at = text.find(stop[0], at + 1)
    return len(text) if at < 0 else at
