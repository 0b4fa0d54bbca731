"""Converts Kafka messages to requests, and responses to messages."""

from collections.abc import Callable
from typing import Any, NamedTuple

from inferstream.ext.calls import Admission, Caller
from inferstream.ext.http import JSON_WRITER, JsonLimits, dump_json

from ..dataplane.cloudevents import ID, REQUEST_ID, RESPONSE, CloudEvents
from ..errors import InferstreamError, InvalidRequest, Unsupported
from ..types import Headers, InferenceRequest, InferenceResponse

DIALECT = "kafka"
"""The name of the messages in logs."""

PREFIXES = ("inferstream-", "mlserver-")
"""Prefixes of the headers that name model, version and method; the first has precedence."""

MOST_ID = 1024
"""Characters of an id, as in V2."""

MOST_TEXT = 4096
"""Characters of an error in a response and in the log. It may repeat what a client has sent."""

SHORT_KEY = 256
"""Bytes of the key of a response that is made as small as possible."""

Admit = Callable[[str, str | None, Caller], Admission]
Pairs = list[tuple[str, bytes]]


class KafkaMessage(NamedTuple):
    """A message to the output topic."""

    key: bytes | None
    value: bytes
    headers: Pairs


def admission_of(record: Any, admit: Admit) -> Admission:
    """The admission to the model that the headers of a record name.

    Raises InvalidRequest, Unsupported, and the errors of `admit`.
    """
    headers = {name: (value or b"").decode("latin-1") for name, value in record.headers}
    model = _header(headers, "model")
    if not model:
        raise InvalidRequest('The message has no header "mlserver-model".')
    method = _header(headers, "method") or "infer"
    if method != "infer":
        raise Unsupported(f'The method "{shortened(method, MOST_ID)}" is not known here; "infer" is.')
    admission = admit(model, _header(headers, "version"), Caller(headers_of(record), DIALECT))
    admission.size = len(record.value or b"")
    return admission


def request_of(record: Any, limits: JsonLimits, admission: Admission) -> InferenceRequest:
    """The request in a record whose value is within `limits`. Raises InvalidRequest and PayloadTooLarge."""
    value = record.value or b""
    limits.check(value)
    return admission.read_request(value, key_of(record))


def headers_of(record: Any) -> Headers:
    """The headers of a record. A value that is null is empty."""
    return Headers([(name.lower(), value or b"") for name, value in record.headers])


def _header(headers: dict[str, str], name: str) -> str | None:
    return next((headers[prefix + name] for prefix in PREFIXES if prefix + name in headers), None)


def key_of(record: Any) -> str | None:
    return None if record.key is None else record.key.decode("utf-8", "replace")


def response_message(
    admission: Admission, response: InferenceResponse, events: CloudEvents | None
) -> KafkaMessage:
    """The message of a response: its id is the key, its headers are the headers."""
    headers: dict[str, str] = {}
    if events is not None and response.id:
        headers = {**events.of_model(admission.model, RESPONSE), ID: response.id, REQUEST_ID: response.id}
    headers.update(admission.model_headers(response.parameters))
    text, _ = response.accept(JSON_WRITER)
    key = None if response.id is None else response.id.encode()
    return KafkaMessage(key, text, [(name, value.encode()) for name, value in headers.items()])


def shortened(text: str, most: int = MOST_TEXT) -> str:
    """A text of at most `most` characters, and an ellipsis for the rest."""
    return text if len(text) <= most else f"{text[:most]}..."


def refusal(record: Any, error: InferstreamError, small: bool = False) -> KafkaMessage:
    """The message of an error. A `small` one has no id and the beginning of a long key, so that it always fits."""
    document = {"error": shortened(error.message), "code": error.code.value}
    key = record.key
    if small:
        key = key and key[:SHORT_KEY]
    elif (id := key_of(record)) is not None:
        document["id"] = shortened(id, MOST_ID)
    return KafkaMessage(key, dump_json(document), [("inferstream-error", error.code.value.encode())])
