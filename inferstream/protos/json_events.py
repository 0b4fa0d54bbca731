"""Writes the responses of a V2 stream as server-sent events, and caches the parts that repeat."""

from typing import Any

import orjson

from ..types import InferenceResponse, Parameters, ResponseOutput
from ..types.forms import OutputForm
from . import sse
from .json_responses import IN_JSON, dump, json_value, json_values, response_fields, value_frame
from .unwritable_outputs import log_unwritable_output

_CLOSING = b"}]}\n\n"


class ValueEvents:
    """Writes responses as events. For single values, the JSON around the value is computed once per form."""

    __slots__ = ("_closing", "_form", "_opening")

    def __init__(self) -> None:
        self._form: OutputForm | None = None
        """The form of the last single-value response, to which `_opening` and `_closing` belong."""
        self._opening = self._closing = b""

    def __call__(self, response: InferenceResponse) -> bytes:
        """Return the event for a response. Raises InvalidOutput for a value that JSON cannot represent."""
        form = response.form
        if form is not None and (form is self._form or self._begin(form, response.id)):
            try:
                # Calling `json_value` would make a token 2 % slower.
                text = json_value(form, response.value) if form.base64 else orjson.dumps(response.value)
            except TypeError as error:
                raise log_unwritable_output(error, form.name, form.model_name) from error
            return b"".join((self._opening, text, self._closing))
        return self._write(response)

    def _begin(self, form: OutputForm, request_id: str | None) -> bool:
        """Cache the bytes around the values of a form.

        The id is constant within a stream, and the form determines the rest. Returns False if each response
        has to be written as a whole.
        """
        if (frame := self._get_frame(form, request_id)) is None:
            return False
        self._form = form
        self._opening, self._closing = b"data: " + frame[0], frame[1] + b"\n\n"
        return True

    def _get_frame(self, form: OutputForm, request_id: str | None) -> tuple[bytes, bytes] | None:
        """Return the JSON of a single-value response before and after the value.

        Returns None if that JSON depends on more than the form and the id.
        """
        raise NotImplementedError

    def _write(self, response: InferenceResponse) -> bytes:
        """Return the event for any other response."""
        raise NotImplementedError

    def end(self) -> bytes:
        """Return the bytes after the last response. Empty by default."""
        return b""


class EventWriter(ValueEvents):
    """Writes each response as an event.

    Usually, the responses of a stream differ only in their values. In that case, the writer reuses the JSON
    around the values, which halves the time for a token (1.4 µs instead of 2.9 µs).
    """

    __slots__ = ("_facts", "_shape")

    def __init__(self) -> None:
        super().__init__()
        self._facts: tuple[Any, ...] | None = None
        self._shape: list[int] = []

    def _get_frame(self, form: OutputForm, request_id: str | None) -> tuple[bytes, bytes]:
        self._facts = None
        return value_frame(form, request_id)

    def _write(self, response: InferenceResponse) -> bytes:
        outputs = response._outputs  # slots, because properties would make a token 5 % slower
        if len(outputs) != 1 or response._parameters is not None:
            return _write_whole(response)
        tensor = outputs[0]
        parameters, datatype, shape = tensor.parameters, tensor.datatype, tensor.shape
        content_type = None
        if parameters is not None:
            if parameters.__pydantic_extra__:
                return _write_whole(response)
            content_type = parameters.content_type
        values, encoded = json_values(tensor._data, datatype)
        if encoded:
            return _write_whole(response)
        facts = (
            response.id,
            response._model_name,
            response._model_version,
            tensor.name,
            datatype,
            content_type,
        )
        if facts != self._facts or shape != self._shape:
            self._prepare(response, tensor, parameters)
            self._form = None
            self._facts, self._shape = facts, [*shape]
        return b"".join((self._opening, dump(values, tensor.name), self._closing))

    def _prepare(
        self, response: InferenceResponse, tensor: ResponseOutput, parameters: Parameters | None
    ) -> None:
        head = dump(response_fields(response))[:-1]
        item = dump({"name": tensor.name, "shape": tensor.shape, "datatype": tensor.datatype})[:-1]
        self._opening = b'data: %b,"outputs":[%b,"data":' % (head, item)
        sent = {} if parameters is None else dict(parameters.items())
        self._closing = b',"parameters":' + dump(sent) + _CLOSING if sent else _CLOSING


def _write_whole(response: InferenceResponse) -> bytes:
    return sse.response_event(response.parameters, response.accept(IN_JSON)[0])
