"""Writes what a model yields as text as a response with one BYTES tensor."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from inferstream import Token

from ..errors import InvalidOutput
from ..types import InferenceResponse, MetadataTensor, Parameters, ResponseOutput, TensorData
from ..types.forms import OutputForm

TEXT = "text"
"""Name of the output of a model that declares none."""


class TextOutput:
    """The output that texts of a model become: its first declared BYTES output, in its declared shape."""

    __slots__ = ("_model", "_name", "_shape", "_version", "form")

    def __init__(self, model: str, version: str | None, declared: Sequence[MetadataTensor]) -> None:
        self._model = model
        self._version = version
        output = next((tensor for tensor in declared if tensor.datatype == "BYTES"), None)
        self._name = TEXT if output is None else output.name
        self._shape = [1] * (1 if output is None else len(output.shape))
        self.form: OutputForm | None = OutputForm(model, version, self._name, "BYTES", tuple(self._shape))

    def write(self, item: object) -> InferenceResponse | None:
        """The response that a `Token`, `str` or `bytes` stands for; None for any other object.

        Raises InvalidOutput for a token whose fields cannot be sent.
        """
        if isinstance(item, (str, bytes)):
            return self._response(item, None)
        if not isinstance(item, Token):
            return None
        if not isinstance(item.text, (str, bytes)):
            raise InvalidOutput(f"Model {self._model} answered a Token whose text is {item.text!r}.")
        parameters = _parameters(self._model, item)
        return self._response(item.text, Parameters.of(parameters) if parameters else None)

    def _response(self, text: str | bytes, parameters: Parameters | None) -> InferenceResponse:
        tensor = ResponseOutput.of(self._name, self._shape, "BYTES", TensorData([text]))
        return InferenceResponse.of(self._model, [tensor], self._version, None, parameters)


def _parameters(model: str, token: Token) -> dict[str, Any]:
    """What a token says beside its text. Lists and objects are JSON, because parameters are scalars."""
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
    try:
        if token.prompt_logprobs is not None:
            parameters["prompt_logprobs"] = _json(token.prompt_logprobs)
        if token.top_logprobs is not None:
            parameters["top_logprobs"] = _json(dict(token.top_logprobs))
        if token.tool_calls is not None:
            parameters["tool_calls"] = _json([*token.tool_calls])
    except (TypeError, ValueError) as error:
        raise InvalidOutput(
            f"Model {model} answered a Token that cannot be written as JSON: {error}."
        ) from error
    return parameters


def _json(value: Any) -> str:
    """JSON of a value. Halves of UTF-16 pairs are replaced. Raises TypeError, ValueError."""
    try:
        return orjson.dumps(value, _fields).decode()
    except TypeError:
        text = json.dumps(value, default=_fields, ensure_ascii=False)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _fields(value: Any) -> dict[str, Any]:
    """What is in a call, or in a part of it, of a class of the model's library. Raises TypeError."""
    return dict(value) if isinstance(value, Mapping) else vars(value)
