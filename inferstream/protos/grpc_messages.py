"""Writes the responses of one stream as the bytes of ModelInferResponses, and caches the parts that repeat."""

from collections.abc import Sequence
from copy import copy
from typing import Any

from ..types import InferenceResponse
from ..types.forms import OutputForm
from .grpc_responses import WRITERS

MOST_SIZES = 32
"""Sizes of texts for which a stream keeps the bytes before the text."""


class MessageWriter:
    """Writes each response as a message, with typed or raw contents. Raises InvalidOutput.

    The responses of a stream of texts usually differ in the text only. While they do, the bytes before the text depend
    on its size alone.
    """

    __slots__ = ("_before", "_facts", "_shape", "_whole")

    def __init__(self, typed: bool) -> None:
        self._whole = WRITERS[typed]
        self._facts: tuple[Any, ...] | None = None
        self._shape: Sequence[int] = []
        self._before: dict[int, bytes] = {}
        """What precedes a text, by its size in bytes."""

    def value(self, form: OutputForm, response: InferenceResponse) -> bytes:
        if form.datatype != "BYTES":
            return self._whole.value(form, response)
        return self._text(response.value, form.shape, (form, response.id), response)

    def tensors(self, response: InferenceResponse) -> bytes:
        outputs = response.outputs
        if len(outputs) != 1 or response.parameters is not None:
            return self._whole.tensors(response)
        tensor = outputs[0]
        values, parameters, content_type = tensor.data.values, tensor.parameters, None
        if type(values) is not list or len(values) != 1 or tensor.datatype != "BYTES":
            return self._whole.tensors(response)
        if parameters is not None:
            if parameters.__pydantic_extra__:
                return self._whole.tensors(response)
            content_type = parameters.content_type
        names = (response.id, response.model_name, response.model_version)
        return self._text(values[0], tensor.shape, (tensor.name, content_type, *names), response)

    def _text(
        self, text: Any, shape: Sequence[int], facts: tuple[Any, ...], response: InferenceResponse
    ) -> bytes:
        """The message of a response whose only value is `text`. All else depends on the shape and the facts."""
        if type(text) is str:
            try:
                text = text.encode()
            except UnicodeEncodeError:
                return response.accept(self._whole)
        if type(text) is not bytes:
            return response.accept(self._whole)
        if facts != self._facts or shape != self._shape:
            self._facts, self._shape = facts, copy(shape)  # of a list, which a model may change
            self._before.clear()
        before = self._before.get(len(text))
        if before is not None:
            return before + text
        message = response.accept(self._whole)
        if len(self._before) == MOST_SIZES:
            self._before.clear()
        self._before[len(text)] = message[: len(message) - len(text)]
        return message
