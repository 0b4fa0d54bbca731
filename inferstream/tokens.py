"""Tokens of texts, which a model may yield in place of tensors: how V2 responses carry them and report their counts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import orjson

from .errors import InvalidOutput
from .types import InferenceResponse, MetadataTensor, Parameters, ResponseOutput, TensorData
from .types.forms import OutputForm

TEXT = "text"
"""Name of the output of a model that declares none."""


@dataclass(slots=True, eq=False)
class Usage:
    """How many tokens a model has read and written for one request; None before the end of the text."""

    prompt_tokens: int
    completion_tokens: int | None = None


@dataclass(slots=True, eq=False)
class Token:
    """A piece of a text, from `predict_stream`, `predict` or a step of a `StepModel`.

    A plain `str` or `bytes` does where there is nothing to say beside the text. Bytes may end within a character.
    Clients of V2 get a BYTES tensor with the text, and everything else as parameters of the response.

    - `id`: number of the token in the vocabulary. `logprob`: natural logarithm of its probability.
    - `top_logprobs`: texts and log probabilities of the most likely tokens at its place.
    - `spelling`: the token as `spelling.spell` writes its bytes, if it is not its text: a part of a character.
    - `prompt_logprobs`: the spelling of each token of the prompt, its log probability and those of the most likely
      tokens, on the first token, for a request with the parameter `prompt_logprobs`.
    - `finish_reason`: why the text ends with this token: `stop`, `length`, `tool_calls` or `content_filter`.
    - `usage`: counts of the tokenizer, on the last token. The server counts items where no token has them. Give
      `Usage(prompt_tokens)` on the first token too, for texts that end with a stop string of the client.
    - `tool_calls`: whole tool calls, or pieces of them as in the `delta` of an OpenAI chunk: dicts or objects.
    """

    text: str | bytes = ""
    id: int | None = None
    logprob: float | None = None
    _: KW_ONLY
    top_logprobs: Mapping[str, float] | None = None
    spelling: str | None = None
    prompt_logprobs: Sequence[tuple[str, float | None, Mapping[str, float]]] | None = None
    finish_reason: str | None = None
    usage: Usage | None = None
    tool_calls: Sequence[Any] | None = None


class ToldUsage(NamedTuple):
    """Tokens read and written, and why the text ended; None for what the model does not tell."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str | None = None


UNKNOWN = ToldUsage()


def usage_of(parameters: Parameters | None, first: Parameters | None = None) -> ToldUsage:
    """What the parameters of the last response tell. Others are ignored.

    Those of the `first` one count the prompt of a text that its model did not end.
    """
    said = None if parameters is None else parameters.__pydantic_extra__
    if first is not None and not (said and "prompt_tokens" in said):
        prompt_tokens = usage_of(first).prompt_tokens
        return usage_of(parameters)._replace(prompt_tokens=prompt_tokens)
    if not said:
        return UNKNOWN
    reason = said.get("finish_reason")
    return ToldUsage(
        _count(said.get("prompt_tokens")),
        _count(said.get("completion_tokens")),
        None if reason is None else str(reason),
    )


def tokens_of(last: Parameters | None, items: int, first: Parameters | None = None) -> int:
    """Tokens of a call by the parameters of its responses: those of the prompt, and of the text or its items."""
    if last is None and first is None:
        return items
    usage = usage_of(last, first)
    return (usage.prompt_tokens or 0) + (
        items if usage.completion_tokens is None else usage.completion_tokens
    )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


class TokenWriter:
    """Makes V2 responses of the texts of a model: values of its first declared BYTES output, in its declared shape."""

    __slots__ = ("_model", "_name", "_shape", "_version", "form")

    def __init__(self, model: str, version: str | None, declared: Sequence[MetadataTensor]) -> None:
        self._model = model
        self._version = version
        output = next((tensor for tensor in declared if tensor.datatype == "BYTES"), None)
        self._name = TEXT if output is None else output.name
        self._shape = [1] * (1 if output is None else len(output.shape))
        self.form: OutputForm | None = OutputForm(model, version, self._name, "BYTES", tuple(self._shape))

    def write(self, item: object) -> InferenceResponse | None:
        """The response of a `Token`, `str` or `bytes`; None for another object.

        Raises InvalidOutput for a token whose fields cannot be sent.
        """
        if isinstance(item, (str, bytes)):
            return self._response(item, None)
        if not isinstance(item, Token):
            return None
        if not isinstance(item.text, (str, bytes)):
            raise InvalidOutput(f"Model {self._model} answered a Token whose text is {item.text!r}.")
        try:
            parameters = parameters_of(item)
        except (TypeError, ValueError) as error:
            raise InvalidOutput(
                f"Model {self._model} answered a Token that cannot be written as JSON: {error}."
            ) from error
        return self._response(item.text, Parameters.of(parameters) if parameters else None)

    def _response(self, text: str | bytes, parameters: Parameters | None) -> InferenceResponse:
        tensor = ResponseOutput.of(self._name, self._shape, "BYTES", TensorData([text]))
        return InferenceResponse.of(self._model, [tensor], self._version, None, parameters)


def parameters_of(token: Token) -> dict[str, Any]:
    """The fields of a token beside its text, as the parameters that `usage_of` reads; lists and objects are JSON.

    Raises TypeError and ValueError for a field that JSON cannot hold.
    """
    parameters: dict[str, Any] = {}
    if token.id is not None:
        parameters["token_id"] = token.id
    if token.logprob is not None:
        parameters["logprob"] = float(token.logprob)
    if token.finish_reason is not None:
        parameters["finish_reason"] = token.finish_reason
    if token.usage is not None:
        parameters["prompt_tokens"] = token.usage.prompt_tokens
        if token.usage.completion_tokens is not None:
            parameters["completion_tokens"] = token.usage.completion_tokens
    if token.spelling is not None:
        parameters["token"] = token.spelling
    if token.prompt_logprobs is not None:
        parameters["prompt_logprobs"] = _json(token.prompt_logprobs)
    if token.top_logprobs is not None:
        parameters["top_logprobs"] = _json(dict(token.top_logprobs))
    if token.tool_calls is not None:
        parameters["tool_calls"] = _json([*token.tool_calls])
    return parameters


def _json(value: Any) -> str:
    """JSON of a value. Halves of UTF-16 pairs are replaced. Raises TypeError, ValueError."""
    try:
        return orjson.dumps(value, _attributes).decode()
    except TypeError:
        text = json.dumps(value, default=_attributes, ensure_ascii=False)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _attributes(value: Any) -> dict[str, Any]:
    """The content of a call, or of a part of it, of a class of the model's library. Raises TypeError."""
    return dict(value) if isinstance(value, Mapping) else vars(value)
