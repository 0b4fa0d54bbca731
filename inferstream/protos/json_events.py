"""Writes the responses of one V2 stream as server-sent events, and caches the parts that repeat."""

from typing import Any

import orjson

from ..types import InferenceResponse, Parameters, ResponseOutput
from ..types.forms import OutputForm
from . import sse
from .json_responses import IN_JSON, dump, head_of, json_value, json_values, value_frame
from .unwritable_outputs import unwritable

_CLOSING = b"}]}\n\n"


class ValueEvents:
    """Writes each response of one value as an event, between bytes that are made once for its form."""

    __slots__ = ("_closing", "_form", "_opening")

    def __init__(self) -> None:
        self._form: OutputForm | None = None
        """That of the last response of one value, which stands between `_opening` and `_closing`."""
        self._opening = self._closing = b""

    def __call__(self, response: InferenceResponse) -> bytes:
        """The bytes of the event. Raises InvalidOutput for a value that JSON cannot hold."""
        form = response.form
        if form is not None and (form is self._form or self._begin(form, response.id)):
            try:
                # The frame of `json_value` would cost a token 2 %.
                text = json_value(form, response.value) if form.base64 else orjson.dumps(response.value)
            except TypeError as error:
                raise unwritable(error, form.name, form.model_name) from error
            return b"".join((self._opening, text, self._closing))
        return self._write(response)

    def _begin(self, form: OutputForm, request_id: str | None) -> bool:
        """Prepare for the values of a form. One stream has one id, and the form has the rest.

        False where each response has to be written whole.
        """
        if (frame := self._around(form, request_id)) is None:
            return False
        self._form = form
        self._opening, self._closing = b"data: " + frame[0], frame[1] + b"\n\n"
        return True

    def _around(self, form: OutputForm, request_id: str | None) -> tuple[bytes, bytes] | None:
        """The JSON of a response of one value, before and after the value; None where it depends on more."""
        raise NotImplementedError

    def _write(self, response: InferenceResponse) -> bytes:
        """The event of any other response."""
        raise NotImplementedError

    def end(self) -> bytes:
        """Nothing follows the last response."""
        return b""


class EventWriter(ValueEvents):
    """Writes each response as an event.

    The responses of a stream usually differ in their values only. While they do, the writer reuses the JSON
    around the values: a token costs 1.4 µs instead of 2.9.
    """

    __slots__ = ("_facts", "_shape")

    def __init__(self) -> None:
        super().__init__()
        self._facts: tuple[Any, ...] | None = None
        self._shape: list[int] = []

    def _around(self, form: OutputForm, request_id: str | None) -> tuple[bytes, bytes]:
        self._facts = None
        return value_frame(form, request_id)

    def _write(self, response: InferenceResponse) -> bytes:
        outputs = response._outputs  # the slots, because properties would cost a token 5 %
        if len(outputs) != 1 or response._parameters is not None:
            return _whole(response)
        tensor = outputs[0]
        parameters, datatype, shape = tensor.parameters, tensor.datatype, tensor.shape
        content_type = None
        if parameters is not None:
            if parameters.__pydantic_extra__:
                return _whole(response)
            content_type = parameters.content_type
        values, encoded = json_values(tensor._data, datatype)
        if encoded:
            return _whole(response)
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
        head = dump(head_of(response))[:-1]
        item = dump({"name": tensor.name, "shape": tensor.shape, "datatype": tensor.datatype})[:-1]
        self._opening = b'data: %b,"outputs":[%b,"data":' % (head, item)
        sent = {} if parameters is None else dict(parameters.items())
        self._closing = b',"parameters":' + dump(sent) + _CLOSING if sent else _CLOSING


def _whole(response: InferenceResponse) -> bytes:
    return sse.response_event(response.parameters, response.accept(IN_JSON)[0])
