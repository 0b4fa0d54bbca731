"""Writes the responses of one stream as the bytes of ModelInferResponses, and caches the parts that repeat."""

from typing import Any

from ..types import InferenceResponse
from .grpc_responses import dump_response

MOST_SIZES = 32
"""Sizes of texts for which a stream keeps the bytes before the text."""


class MessageWriter:
    """Writes each response as a message, with typed or raw contents.

    The responses of a stream of texts usually differ in the text only. While they do, the bytes before the text depend
    on its size alone.
    """

    __slots__ = ("_before", "_facts", "_shape", "_typed")

    def __init__(self, typed: bool) -> None:
        self._typed = typed
        self._facts: tuple[Any, ...] | None = None
        self._shape: list[int] = []
        self._before: dict[int, bytes] = {}
        """What precedes a text, by its size in bytes."""

    def write(self, response: InferenceResponse) -> bytes:
        """The bytes of the message. Raises InvalidOutput for an output that cannot be written."""
        parts = _text_of(response)
        if parts is None:
            return dump_response(response, self._typed)
        text, shape, facts = parts
        if facts != self._facts or shape != self._shape:
            self._facts, self._shape = facts, [*shape]
            self._before.clear()
        before = self._before.get(len(text))
        if before is not None:
            return before + text
        message = dump_response(response, self._typed)
        if len(self._before) == MOST_SIZES:
            self._before.clear()
        self._before[len(text)] = message[: len(message) - len(text)]
        return message


def _text_of(response: InferenceResponse) -> tuple[bytes, list[int], tuple[Any, ...]] | None:
    """The only text of a response, its shape, and all else that its message depends on; None for other responses."""
    facts: tuple[Any, ...]
    if (form := response.form) is None:
        outputs = response.outputs
        if len(outputs) != 1 or response.parameters is not None:
            return None
        tensor = outputs[0]
        values, parameters, content_type = tensor.data.values, tensor.parameters, None
        if type(values) is not list or len(values) != 1 or tensor.datatype != "BYTES":
            return None
        if parameters is not None:
            if parameters.__pydantic_extra__:
                return None
            content_type = parameters.content_type
        text, shape = values[0], tensor.shape
        facts = (tensor.name, content_type, response.id, response.model_name, response.model_version)
    elif form.datatype == "BYTES":
        text, shape = response.value, form.shape
        facts = (form, response.id)
    else:
        return None
    if type(text) is str:
        try:
            text = text.encode()
        except UnicodeEncodeError:
            return None
    return (text, shape, facts) if type(text) is bytes else None
