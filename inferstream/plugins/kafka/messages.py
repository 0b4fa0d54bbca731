"""Converts Kafka messages to requests, and responses to Kafka messages."""

from collections.abc import Callable
from typing import Any, NamedTuple

from inferstream.errors import InferstreamError, InvalidRequest, Unsupported
from inferstream.ext.calls import Admission, Caller
from inferstream.ext.http import JSON_WRITER, JsonLimits, dump_json
from inferstream.plugins.cloudevents.events import ID, REQUEST_ID, RESPONSE, CloudEvents
from inferstream.types import Headers, InferenceRequest, InferenceResponse

DIALECT = "kafka"
"""The name of the API in logs."""

PREFIXES = ("inferstream-", "mlserver-")
"""Prefixes of the headers for model, version and method. The first one takes precedence."""

MAX_ID = 1024
"""Maximum length of an id in characters, as in V2."""

MAX_TEXT = 4096
"""Maximum length of an error message in characters, because it may repeat client data."""

SHORT_KEY = 256
"""Maximum size of the key in a minimal error message, in bytes."""

Admit = Callable[[str, str | None, Caller], Admission]
Pairs = list[tuple[str, bytes]]


class KafkaMessage(NamedTuple):
    """A message for the output topic."""

    key: bytes | None
    value: bytes
    headers: Pairs


def admit_record(record: Any, admit: Admit) -> Admission:
    """Admit a record to the model that its headers name.

    Raises InvalidRequest, Unsupported, and the errors of `admit`.
    """
    headers = {name: (value or b"").decode("latin-1") for name, value in record.headers}
    model = _header(headers, "model")
    if not model:
        raise InvalidRequest('The message has no header "mlserver-model".')
    method = _header(headers, "method") or "infer"
    if method != "infer":
        raise Unsupported(f'The method "{truncate(method, MAX_ID)}" is not known here; "infer" is.')
    admission = admit(model, _header(headers, "version"), Caller(decode_headers(record), DIALECT))
    admission.size = len(record.value or b"")
    return admission


def parse_request(record: Any, limits: JsonLimits, admission: Admission) -> InferenceRequest:
    """Parse the request in a record, within `limits`. Raises InvalidRequest or PayloadTooLarge."""
    value = record.value or b""
    limits.check(value)
    return admission.read_request(value, decode_key(record))


def decode_headers(record: Any) -> Headers:
    """Return the headers of a record. Null values become empty."""
    return Headers([(name.lower(), value or b"") for name, value in record.headers])


def _header(headers: dict[str, str], name: str) -> str | None:
    return next((headers[prefix + name] for prefix in PREFIXES if prefix + name in headers), None)


def decode_key(record: Any) -> str | None:
    return None if record.key is None else record.key.decode("utf-8", "replace")


def build_response(
    admission: Admission, response: InferenceResponse, events: CloudEvents | None
) -> KafkaMessage:
    """Build the message for a response, with its id as the key."""
    headers: dict[str, str] = {}
    if events is not None and response.id:
        headers = {**events.of_model(admission.model, RESPONSE), ID: response.id, REQUEST_ID: response.id}
    headers.update(admission.model_headers(response.parameters))
    text, _ = response.accept(JSON_WRITER)
    key = None if response.id is None else response.id.encode()
    return KafkaMessage(key, text, [(name, value.encode()) for name, value in headers.items()])


def truncate(text: str, most: int = MAX_TEXT) -> str:
    """Truncate a string to `most` characters and add an ellipsis."""
    return text if len(text) <= most else f"{text[:most]}..."


def build_error_message(record: Any, error: InferstreamError, small: bool = False) -> KafkaMessage:
    """Build the message for an error.

    With `small`, it omits the id and truncates the key, so that it always fits.
    """
    document = {"error": truncate(error.message), "code": error.code.value}
    key = record.key
    if small:
        key = key and key[:SHORT_KEY]
    elif (id := decode_key(record)) is not None:
        document["id"] = truncate(id, MAX_ID)
    return KafkaMessage(key, dump_json(document), [("inferstream-error", error.code.value.encode())])
