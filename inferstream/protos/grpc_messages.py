"""Writes the responses of a stream as the bytes of ModelInferResponses, and caches the parts that repeat."""

from collections.abc import Sequence
from copy import copy
from typing import Any

from ..types import InferenceResponse
from ..types.forms import OutputForm
from .grpc_responses import WRITERS

MAX_SIZES = 32
"""The maximum number of string sizes for which a stream caches the preceding bytes."""


class MessageWriter:
    """Writes each response as a message, with typed or raw contents. Raises InvalidOutput.

    While a model generates text, its responses usually differ only in the string. In that case, the bytes
    before the string depend only on its size.
    """

    __slots__ = ("_before", "_key", "_shape", "_whole")

    def __init__(self, typed: bool) -> None:
        self._whole = WRITERS[typed]
        self._key: tuple[Any, ...] | None = None
        self._shape: Sequence[int] = []
        self._before: dict[int, bytes] = {}
        """The bytes before a string, by its size in bytes."""

    def value(self, form: OutputForm, response: InferenceResponse) -> bytes:
        if form.datatype != "BYTES":
            return self._whole.value(form, response)
        return self._encode_text_response(response.value, form.shape, (form, response.id), response)

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
        return self._encode_text_response(
            values[0], tensor.shape, (tensor.name, content_type, *names), response
        )

    def _encode_text_response(
        self, text: Any, shape: Sequence[int], key: tuple[Any, ...], response: InferenceResponse
    ) -> bytes:
        """Encode a response whose only value is `text` as a message.

        `shape` and `key` determine everything else.
        """
        if type(text) is str:
            try:
                text = text.encode()
            except UnicodeEncodeError:
                return response.accept(self._whole)
        if type(text) is not bytes:
            return response.accept(self._whole)
        if key != self._key or shape != self._shape:
            self._key, self._shape = key, copy(shape)  # the shape may be a list that the model modifies
            self._before.clear()
        before = self._before.get(len(text))
        if before is not None:
            return before + text
        message = response.accept(self._whole)
        if len(self._before) == MAX_SIZES:
            self._before.clear()
        self._before[len(text)] = message[: len(message) - len(text)]
        return message
