"""Writes the responses of one V2 stream as server-sent events, and caches the parts that repeat."""

from typing import Any

import orjson

from ..types import InferenceResponse, Parameters, ResponseOutput
from ..types.forms import OutputForm
from . import sse
from .json_responses import dump, dump_response, head_of, json_value, json_values, unwritable, value_frame

_CLOSING = b"}]}\n\n"


class EventWriter:
    """Writes each response as an event.

    The responses of a stream usually differ in their values only. While they do, the writer reuses the JSON
    around the values: a token costs 1.4 µs instead of 2.9.
    """

    __slots__ = ("_closing", "_facts", "_form", "_opening", "_shape")

    def __init__(self) -> None:
        self._facts: tuple[Any, ...] | None = None
        self._form: OutputForm | None = None
        self._shape: list[int] = []
        self._opening = self._closing = b""

    def __call__(self, response: InferenceResponse) -> bytes:
        """The bytes of the event. Raises InvalidOutput for a value that JSON cannot hold."""
        form = response.form
        if form is not None:
            if form is not self._form:
                self._begin(form, response.id)
            try:
                # The frame of `json_value` would cost a token 2 %.
                text = json_value(form, response.value) if form.base64 else orjson.dumps(response.value)
            except TypeError as error:
                raise unwritable(error) from error
            return b"".join((self._opening, text, self._closing))
        outputs = response.outputs
        if len(outputs) != 1 or response.parameters is not None:
            return _whole(response)
        tensor = outputs[0]
        parameters, datatype, shape = tensor.parameters, tensor.datatype, tensor.shape
        content_type = None
        if parameters is not None:
            if parameters.__pydantic_extra__:
                return _whole(response)
            content_type = parameters.content_type
        values, encoded = json_values(tensor.data, datatype)
        if encoded:
            return _whole(response)
        names = (response.id, response.model_name, response.model_version)
        facts = (*names, tensor.name, datatype, content_type)
        if facts != self._facts or shape != self._shape:
            self._prepare(response, tensor, parameters)
            self._form = None
            self._facts, self._shape = facts, [*shape]
        return b"".join((self._opening, dump(values), self._closing))

    def end(self) -> bytes:
        """Nothing follows the last response."""
        return b""

    def _begin(self, form: OutputForm, request_id: str | None) -> None:
        """Prepare for the values of a form. One stream has one id, and the form has the rest."""
        self._form = form
        self._facts = None
        self._opening, self._closing = around_value(form, request_id)

    def _prepare(
        self, response: InferenceResponse, tensor: ResponseOutput, parameters: Parameters | None
    ) -> None:
        head = dump(head_of(response))[:-1]
        item = dump({"name": tensor.name, "shape": tensor.shape, "datatype": tensor.datatype})[:-1]
        self._opening = b'data: %b,"outputs":[%b,"data":' % (head, item)
        sent = {} if parameters is None else dict(parameters.items())
        self._closing = b',"parameters":' + dump(sent) + _CLOSING if sent else _CLOSING


def around_value(form: OutputForm, request_id: str | None) -> tuple[bytes, bytes]:
    """The bytes of an event before and after its only value."""
    opening, closing = value_frame(form, request_id)
    return b"data: " + opening, closing + b"\n\n"


def _whole(response: InferenceResponse) -> bytes:
    return sse.response_event(response.parameters, dump_response(response)[0])
