"""Converts Kafka messages to requests, and responses to messages."""

from collections.abc import Callable
from typing import Any, NamedTuple

from ..dataplane.admission import Admission
from ..dataplane.caller import Caller
from ..dataplane.cloudevents import ID, REQUEST_ID, RESPONSE, CloudEvents
from ..errors import InferstreamError, InvalidRequest, Unsupported
from ..protos import json_requests
from ..protos.json_checks import JsonLimits
from ..protos.json_responses import IN_JSON, dump
from ..server.headers import model_headers
from ..types import Headers, InferenceRequest, InferenceResponse

PREFIXES = ("inferstream-", "mlserver-")
"""Prefixes of the headers that name model, version and method; the first has precedence."""

Admit = Callable[[str, str | None, Caller], Admission]
Pairs = list[tuple[str, bytes]]


class KafkaMessage(NamedTuple):
    """A message to the output topic."""

    key: bytes | None
    value: bytes
    headers: Pairs


def request_of(record: Any, limits: JsonLimits, admit: Admit) -> tuple[Admission, InferenceRequest]:
    """The request in a record whose value is within `limits`, and the admission to its model.

    Raises InvalidRequest, PayloadTooLarge, Unsupported, and the errors of `admit`.
    """
    headers = {name: value.decode("latin-1") for name, value in record.headers}
    model = _header(headers, "model")
    if not model:
        raise InvalidRequest('The message has no header "mlserver-model".')
    method = _header(headers, "method") or "infer"
    if method != "infer":
        raise Unsupported(f'The method "{method}" is not known here; "infer" is.')
    value = record.value or b""
    limits.check(value)
    named = [(name.lower(), value) for name, value in record.headers]
    admission = admit(model, _header(headers, "version"), Caller(Headers(named), "kafka"))
    admission.size = len(value)
    document, text = json_requests.load_request(value)
    request, _ = json_requests.build_request(document, text, None, nested=admission.pipeline.takes_any)
    if (key := key_of(record)) is not None:
        request.id = json_requests.check_id(key)
    return admission, request


def _header(headers: dict[str, str], name: str) -> str | None:
    return next((headers[prefix + name] for prefix in PREFIXES if prefix + name in headers), None)


def key_of(record: Any) -> str | None:
    return None if record.key is None else record.key.decode("utf-8", "replace")


def response_message(model: str, response: InferenceResponse, events: CloudEvents | None) -> KafkaMessage:
    """The message of a response: its id is the key, its headers are the headers."""
    headers: dict[str, str] = {}
    if events is not None and response.id:
        headers = {**events.of_model(model, RESPONSE), ID: response.id, REQUEST_ID: response.id}
    headers.update(model_headers(response.parameters))
    text, _ = response.accept(IN_JSON)
    key = None if response.id is None else response.id.encode()
    return KafkaMessage(key, text, [(name, value.encode()) for name, value in headers.items()])


def refusal(record: Any, error: InferstreamError) -> KafkaMessage:
    document = {"error": error.message, "code": error.code.value}
    if (key := key_of(record)) is not None:
        document["id"] = key
    return KafkaMessage(record.key, dump(document), [("inferstream-error", error.code.value.encode())])
