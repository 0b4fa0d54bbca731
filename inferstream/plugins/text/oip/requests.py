"""Parses requests with `text_input` for models of text."""

from typing import Any

import orjson

from inferstream import ModelSettings
from inferstream.errors import InferstreamError, Refused, own_status
from inferstream.ext.calls import Admission, Operation
from inferstream.ext.http import GenerateFormat, ParsedRequest
from inferstream.ext.runtimes import Signature

from ..fields import Fields
from ..generation import RESERVED, Generation
from ..inputs import MESSAGES, SAMPLING, FieldTexts
from ..interface import TextInterface
from ..settings import TextSettings
from ..text_dialect import TextRequest
from ..text_models import find_text_interface
from ..tgi.errors import STATUSES
from .formats import OipFormat

TEXT, PARAMETERS = "text_input", "parameters"
MARKS = {"details", "stop"}

MAX_TOKENS, TEMPERATURE = 20, 1.0
"""Defaults of the specification."""

READ = RESERVED | MARKS | {TEXT, PARAMETERS, "id", "max_tokens", "temperature", "top_p"}
"""Keys that are not passed to the model unchanged."""


def translate_error(error: InferstreamError) -> InferstreamError:
    """Return an error with the status of the specification, unless model code chose the status."""
    status = STATUSES.get(error.code)
    if status is None or own_status(error) is not None:
        return error
    translated = Refused(error.message, status)
    translated.code = error.code
    return translated


class OipRequest(TextRequest):
    """A request with `text_input`."""

    __slots__ = ()

    translate_error = staticmethod(translate_error)


class TextGeneration(GenerateFormat):
    """The format with `text_input`, for a model of text.

    Requests with another input of the model keep flat JSON. So do requests to a model that takes an input
    `text_input`, except requests that flat JSON cannot serve: with `details`, with a list of stop strings, or
    to `generate` for a model that only streams.
    """

    def __init__(self, signature: Signature, settings: ModelSettings) -> None:
        declared = {tensor.name for tensor in signature.inputs or ()}
        self._others = declared - SAMPLING - {TEXT}
        self._marks = MARKS - declared
        self._declares_text_input = TEXT in declared
        self._may_be_flat = self._declares_text_input or not declared
        self._names = {"model_name": settings.name, "model_version": settings.version or ""}

    def parse(
        self, admission: Admission, operation: Operation, document: Any, body: bytes, limit: int
    ) -> ParsedRequest | None:
        if not isinstance(document, dict) or TEXT not in document or not self._others.isdisjoint(document):
            return None
        streamed = operation is Operation.STREAM
        is_flat = self._may_be_flat and not self._is_marked(document.get(PARAMETERS))
        if is_flat and (streamed or admission.predicts or not self._declares_text_input):
            return None
        interface = find_text_interface(admission)
        if interface is None or not interface.generates:
            return None
        try:
            asked = self._read(Fields.read(body), admission, interface, streamed)
        except InferstreamError as error:
            raise translate_error(error) from error
        asked.limit = limit
        return asked

    def _is_marked(self, parameters: object) -> bool:
        given = [parameters.get(name) for name in self._marks] if isinstance(parameters, dict) else []
        return any(value is True or isinstance(value, list) for value in given)

    def _read(
        self, fields: Fields, admission: Admission, interface: TextInterface, streamed: bool
    ) -> OipRequest:
        """Parse the fields, of which `parameters` may also be outside, as in Triton. Raises InvalidRequest."""
        text = fields.require_text(TEXT)
        options = fields.merge(PARAMETERS)
        details, max_tokens = options.flag("details"), options.integer("max_tokens", 1)
        sampling = {"temperature": options.number("temperature", 0), "top_p": options.number("top_p", 0, 1)}
        given = {name: value for name, value in sampling.items() if value is not None}
        parameters = {**options.other_parameters(READ), "temperature": TEMPERATURE, **given}
        logprobs = interface.logprobs and details
        generation = Generation(parameters, options.stop_strings(), max_tokens or MAX_TOKENS, logprobs)
        if interface.prompt is None:
            messages = orjson.dumps([{"role": "user", "content": text}]).decode()
            request = generation.build_request(interface, None, {MESSAGES: FieldTexts([messages], TEXT)})
        else:
            request = generation.build_request(interface, text, {})
        return OipRequest(admission, generation, [request], OipFormat(self._names, details), streamed)


def build_text_generation(signature: Signature, settings: ModelSettings) -> TextGeneration | None:
    """Return the format for a model that may be a model of text, else None."""
    inputs = signature.inputs
    takes_text = not inputs or any(tensor.datatype == "BYTES" for tensor in inputs)
    is_hidden = settings.section(TextSettings).openai is False
    return TextGeneration(signature, settings) if takes_text and not is_hidden else None
