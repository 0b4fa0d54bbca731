"""`TextReader`: the responses of one call as pieces of text."""

import codecs
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import orjson

from ..errors import InvalidOutput
from ..types import InferenceResponse, Parameters
from .calls.deltas import CallDeltas
from .spelling import spell

STOP = "stop"
LENGTH = "length"

LEAST_LOGPROB = -9999.0
"""The log probability of what cannot come, as OpenAI writes it: JSON has no infinity."""


class SingleValueForm(Protocol):
    """What all responses of a model have in common that hold one value."""

    @property
    def datatype(self) -> str: ...


class TokenLogprob(NamedTuple):
    """A token, its log probability and those of the most likely tokens at its place."""

    token: str
    logprob: float | None
    """None for the first token of a prompt."""
    top: dict[str, float]


class TextReader:
    """Reads the text that each response adds, which may be empty, and finds the end of the text.

    A response is one token, unless the model counts its tokens itself. The text ends at the first of these: the
    model ends it, a stop string appears, `max_tokens` responses with a text are there. A text that may be the
    beginning of a stop string is held back until the next response decides. No piece ends within a character.
    Log probabilities are read `with_logprobs` only, because a model may send them unasked.

    Raises InvalidOutput for a response that holds no text.
    """

    __slots__ = (
        "_calls",
        "_decoder",
        "_half",
        "_held",
        "_max_tokens",
        "_stop",
        "_with_logprobs",
        "completion_tokens",
        "finish_reason",
        "least_tokens",
        "logprobs",
        "prompt",
        "prompt_tokens",
        "reasoning",
        "reasoning_tokens",
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
        """Responses with a text among which stop strings end nothing."""
        self._held = ""
        self._decoder: codecs.IncrementalDecoder | None = None
        self._half = b""
        """The first half of a UTF-16 pair, with which the last text has ended."""
        self.tokens = 0
        """Responses with a text so far."""
        self.finish_reason: str | None = None
        """Why the text ended; None before its end."""
        self.stopped = ""
        """The stop string that ended it; empty if none did."""
        self.prompt_tokens: int | None = None
        self.completion_tokens: int | None = None
        """Counts of the model; None for a model that gives none."""
        self.token_id: int | None = None
        """The number of the last token, if the model gives it."""
        self.logprobs: list[TokenLogprob] = []
        """Those read since somebody last emptied the list."""
        self.prompt: list[TokenLogprob] = []
        """Those of the prompt, if they were asked for."""
        self.tool_calls: list[Any] = []
        """Pieces of tool calls read since somebody last emptied the list, at most one for each call."""
        self._calls = CallDeltas(self.tool_calls)
        self.reasoning = ""
        """What the model has thought since somebody last emptied it; only some readers find it."""
        self.reasoning_tokens: int | None = None
        """Tokens of all its reasoning, without the markers; None for a model whose reasoning is not found."""

    @property
    def completion_count(self) -> int:
        """Tokens of the text: the model's count, else one for each response with a text."""
        return self.tokens if self.completion_tokens is None else self.completion_tokens

    def value(self, form: SingleValueForm, response: InferenceResponse) -> str:
        if form.datatype != "BYTES":
            return self.tensors(response)
        self.token_id = None
        return self._counted(self._plain(response.value))

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
                text = self._plain(value := values[0])
            else:
                text = value = self._decoded(tensor.data.flat())
        self.token_id = None
        if response._parameters is not None:
            self._notice(response._parameters, text, value)
        return self._counted(text) if outputs else self._shown(text)

    def _counted(self, text: str) -> str:
        """What a token adds."""
        self.tokens += 1
        if self.tokens == self._max_tokens and self.finish_reason is None:
            self.finish_reason = LENGTH
        return self._shown(text)

    def _shown(self, text: str) -> str:
        if self._stop:
            text = self._unstopped(text)
        return text if self.finish_reason is None else text + self._rest()

    def end(self) -> str:
        """The text that was held back, once the model has ended. Sets the finish reason."""
        if self.finish_reason is None:
            self.finish_reason = STOP
        return self._rest()

    def _rest(self) -> str:
        """The text that was held back, at the end of the text, and the end of its calls."""
        if self.finish_reason != LENGTH:
            self._calls.end()
        if self.stopped:
            return ""
        held, self._held = self._held, ""
        return held + self._undecoded()

    def _plain(self, value: Any) -> str:
        """The text of one value. Most values are whole texts, which need no decoder that remembers."""
        if self._decoder is None:
            try:
                if type(value) is str:
                    return value if value.isascii() or value.encode() else ""
                if type(value) is bytes:
                    return value.decode()
            except UnicodeError:
                pass
        return self._decoded([value])

    def _decoded(self, values: Sequence[Any]) -> str:
        """The text of values, without the part of a character that they may end with."""
        decoder = self._decoder
        if decoder is None:
            decoder = self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        encoded = (
            self._paired(value).encode() if isinstance(value, str) else bytes(value) for value in values
        )
        return decoder.decode(b"".join(encoded))

    def _paired(self, text: str) -> str:
        """A text whose UTF-16 pairs are joined, also with a half that came before, and other halves replaced."""
        units = self._half + text.encode("utf-16-le", "surrogatepass")
        text, size = codecs.utf_16_le_decode(units, "replace", False)
        self._half = units[size:]
        return text

    def _undecoded(self) -> str:
        if self._decoder is None:
            return ""
        half, self._half = self._half, b""
        return self._decoder.decode(b"\xff" if half else b"", final=True)

    def _unstopped(self, text: str) -> str:
        """What may be shown of a text while stop strings are possible."""
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
                decided = min(decided, beginning(stop, text))
        if end < len(text):
            self.finish_reason = STOP
            return text[:end]
        self._held = text[decided:]
        return text[:decided]

    def _notice(self, parameters: Parameters, text: str, value: Any) -> None:
        said = parameters.__pydantic_extra__
        if not said:
            return
        self.token_id = said.get("token_id")
        if (reason := said.get("finish_reason")) is not None:
            self.finish_reason = str(reason)
        if (prompt_tokens := said.get("prompt_tokens")) is not None:
            self.prompt_tokens = int(prompt_tokens)
        if (completion_tokens := said.get("completion_tokens")) is not None:
            self.completion_tokens = int(completion_tokens)
        if self._with_logprobs and (logprob := said.get("logprob")) is not None:
            top = said.get("top_logprobs")
            token = said.get("token") or (spell(value) if type(value) is bytes else text)
            self.logprobs.append(_logprob(token, logprob, {} if top is None else orjson.loads(top)))
        if self._with_logprobs and (prompt := said.get("prompt_logprobs")) is not None:
            self.prompt = [_logprob(*each) for each in orjson.loads(prompt)]
        if (calls := said.get("tool_calls")) is not None:
            for call in orjson.loads(calls):
                self._calls.add(call)


def _logprob(token: str, logprob: float | None, top: dict[str, float]) -> TokenLogprob:
    others = {each: _finite(value) for each, value in top.items()}
    return TokenLogprob(token, None if logprob is None else _finite(logprob), others)


def _finite(logprob: float | None) -> float:
    return LEAST_LOGPROB if logprob is None else max(float(logprob), LEAST_LOGPROB)


def beginning(stop: str, text: str) -> int:
    """Where a beginning of the stop string stands at the end of a text; the length of the text if nowhere."""
    at = text.find(stop[0], max(0, len(text) - len(stop) + 1))
    while at >= 0 and not stop.startswith(text[at:]):
        at = text.find(stop[0], at + 1)
    return len(text) if at < 0 else at
