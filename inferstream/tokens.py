"""Tokens, which a model can yield instead of tensors, and how V2 responses carry them and their counts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import orjson

from .errors import InvalidOutput
from .types import InferenceResponse, MetadataTensor, Parameters, ResponseOutput, TensorData
from .types.forms import OutputForm

TEXT = "text"
"""The output name of a model that declares no outputs."""


@dataclass(slots=True, eq=False)
class Usage:
    """Token counts of one request. `completion_tokens` is None until the generated text is complete."""

    prompt_tokens: int
    completion_tokens: int | None = None


@dataclass(slots=True, eq=False)
class Token:
    """A piece of generated text, from `predict_stream`, `predict` or a step of a `StepModel`.

    Use a plain `str` or `bytes` if the text has no attributes. Bytes can end within a character. V2 clients
    receive the text as a BYTES tensor, and everything else as parameters of the response.

    - `id`: index of the token in the vocabulary. `logprob`: natural logarithm of its probability.
    - `top_logprobs`: the most likely tokens at this position, with their log probabilities.
    - `spelling`: the bytes of the token as `spelling.spell` writes them, if they differ from the text because
      the token is part of a character.
    - `prompt_logprobs`: for each prompt token, its spelling, its log probability, and the most likely tokens
      with theirs. Set on the first token if the request parameter `prompt_logprobs` is set.
    - `finish_reason`: why generation stopped after this token: `stop`, `length`, `tool_calls` or
      `content_filter`.
    - `usage`: token counts, on the last token. Without it, the server counts items. Also put
      `Usage(prompt_tokens)` on the first token, because a stop string of the client can cut off the text
      before the last token.
    - `tool_calls`: whole tool calls, or pieces of them as in the `delta` of an OpenAI chunk: dicts or
      objects.
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
    """Token counts and the finish reason that a model reports. None for a value that is not reported."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str | None = None


UNKNOWN = ToldUsage()


def read_usage(parameters: Parameters | None, first: Parameters | None = None) -> ToldUsage:
    """Return the usage in the parameters of the last response. Invalid counts are ignored.

    If `parameters` has no prompt count, it is taken from `first`, the parameters of the first response. This
    happens if the text was cut off before the model finished.
    """
    said = None if parameters is None else parameters.__pydantic_extra__
    if first is not None and not (said and "prompt_tokens" in said):
        prompt_tokens = read_usage(first).prompt_tokens
        return read_usage(parameters)._replace(prompt_tokens=prompt_tokens)
    if not said:
        return UNKNOWN
    reason = said.get("finish_reason")
    return ToldUsage(
        _count(said.get("prompt_tokens")),
        _count(said.get("completion_tokens")),
        None if reason is None else str(reason),
    )


def count_tokens(last: Parameters | None, items: int, first: Parameters | None = None) -> int:
    """Return the sum of prompt and completion tokens of a call, from the parameters of its responses.

    `items`, the number of items sent, counts as the completion tokens if the model does not report them.
    """
    if last is None and first is None:
        return items
    usage = read_usage(last, first)
    return (usage.prompt_tokens or 0) + (
        items if usage.completion_tokens is None else usage.completion_tokens
    )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


class TokenWriter:
    """Writes generated text as V2 responses, in the first declared BYTES output.

    The output has the declared number of dimensions, all of size 1. Without a declaration, it is named `TEXT`
    and has shape [1].
    """

    __slots__ = ("_model", "_name", "_shape", "_version", "form")

    def __init__(self, model: str, version: str | None, declared: Sequence[MetadataTensor]) -> None:
        self._model = model
        self._version = version
        output = next((tensor for tensor in declared if tensor.datatype == "BYTES"), None)
        self._name = TEXT if output is None else output.name
        self._shape = [1] * (1 if output is None else len(output.shape))
        self.form: OutputForm | None = OutputForm(model, version, self._name, "BYTES", tuple(self._shape))

    def write(self, item: object) -> InferenceResponse | None:
        """Return the response for a `Token`, `str` or `bytes`. Returns None for any other object.

        Raises InvalidOutput for a token whose fields cannot be sent.
        """
        if isinstance(item, (str, bytes)):
            return self._response(item, None)
        if not isinstance(item, Token):
            return None
        if not isinstance(item.text, (str, bytes)):
            raise InvalidOutput(f"Model {self._model} answered a Token whose text is {item.text!r}.")
        try:
            parameters = build_parameters(item)
        except (TypeError, ValueError) as error:
            raise InvalidOutput(
                f"Model {self._model} answered a Token that cannot be written as JSON: {error}."
            ) from error
        return self._response(item.text, Parameters.of(parameters) if parameters else None)

    def _response(self, text: str | bytes, parameters: Parameters | None) -> InferenceResponse:
        tensor = ResponseOutput.of(self._name, self._shape, "BYTES", TensorData([text]))
        return InferenceResponse.of(self._model, [tensor], self._version, None, parameters)


def build_parameters(token: Token) -> dict[str, Any]:
    """Return the fields of a token except the text, as the parameters that `read_usage` reads.

    Lists and objects are written as JSON. Raises TypeError or ValueError for a field that JSON cannot
    represent.
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
    """Return a value as JSON. Lone surrogates are replaced. Raises TypeError or ValueError."""
    try:
        return orjson.dumps(value, _attributes).decode()
    except TypeError:
        text = json.dumps(value, default=_attributes, ensure_ascii=False)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _attributes(value: Any) -> dict[str, Any]:
    """Return the fields of a tool call (or a part of one) that is an object of a model library.

    Raises TypeError.
    """
    return dict(value) if isinstance(value, Mapping) else vars(value)
