"""Ways in which a server can be wrong: each has a name, and changes the responses of the reference.

`planted.toml` lists them. Those that are not here change the engine and the faces themselves.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from google.protobuf.message import Message

Headers = dict[str, str]

STATUSES: dict[str, Callable[[str, int], int]] = {
    "errors-are-200": lambda path, status: 200,
    "client-errors-are-500": lambda path, status: 500 if status >= 400 else status,
    "readiness-is-503": lambda path, status: 503 if path.endswith(("/ready", "/live")) else status,
    "versions-are-404": lambda path, status: 404 if "/versions/" in path else status,
    "loads-are-500": lambda path, status: 500 if path.endswith("/load") else status,
}
"""Statuses of REST, by the path."""

REFUSED: dict[str, Callable[[str, bytes], bool]] = {
    "empty-body-refused": lambda path, body: not body and path.endswith(("index", "load")),
    "parameters-refused": lambda path, body: b'"parameters"' in body,
    "further-keys-refused": lambda path, body: b"a_number" in body,
    "nested-refused": lambda path, body: b"[[" in body,
    "empty-tensors-refused": lambda path, body: b'"data": []' in body,
    "second-error-is-the-end": lambda path, body: b"7.5" in body,
}
"""Requests of REST that are refused, though they are right."""

BODIES: dict[str, Callable[[Headers, bytes], tuple[Headers, bytes]]] = {
    "text-plain": lambda headers, body: ({**headers, "Content-Type": "text/plain"}, body),
    "length-off": lambda headers, body: (
        {
            name: str(int(value) + 1) if name.startswith("inference") else value
            for name, value in headers.items()
        },
        body,
    ),
    "no-octet-stream": lambda headers, body: (
        {**headers, "Content-Type": headers["Content-Type"].replace("octet-stream", "binary")},
        body,
    ),
    "errors-are-text": lambda headers, body: (headers, b"error" if b'"error"' in body else body),
    "last-byte-changed": lambda headers, body: (
        headers,
        body[:-1] + bytes([body[-1] ^ 0x41]) if "octet" in headers["Content-Type"] else body,
    ),
}
"""Whole bodies of REST."""


def mutate_answer(
    wrong: frozenset[str], asked: tuple[str, bytes], status: int, headers: Headers, body: bytes
) -> tuple[int, Headers, bytes]:
    """What a wrong server sends in the place of this."""
    for name in wrong:
        if name in STATUSES:
            status = STATUSES[name](asked[0], status)
        if name in REFUSED and REFUSED[name](*asked):
            return 400, {"Content-Type": "application/json"}, b'{"error": "refused"}'
        if name in BODIES:
            headers, body = BODIES[name](headers, body)
        if change := json_change(name):
            headers, body = _json(change, headers, body)
    return status, headers, body


def _json(change: Callable[[Any], Any], headers: Headers, body: bytes) -> tuple[Headers, bytes]:
    length = next((int(value) for name, value in headers.items() if name.startswith("inference")), len(body))
    text = json.dumps(walked(json.loads(body[:length]), change)).encode()
    sent = {
        name: str(len(text)) if name.startswith("inference") else value for name, value in headers.items()
    }
    return sent, text + body[length:]


def json_change(name: str) -> Callable[[Any], Any] | None:
    """What a mutation does to each object of JSON."""
    kind, _, key = name.partition(":")
    if kind == "without":
        return lambda part: {name: value for name, value in part.items() if name != key}
    if kind == "retyped":
        return lambda part: {**part, key: 7}
    return JSON.get(name)


JSON: dict[str, Callable[[Any], Any]] = {
    "values-doubled": lambda part: {**part, "data": part["data"] * 2} if "data" in part else part,
    "shapes-changed": lambda part: {**part, "shape": [9, 9]} if "shape" in part else part,
    "named-otherwise": lambda part: {**part, "name": "x"} if "name" in part else part,
    "id-changed": lambda part: {**part, "id": "x"} if "id" in part else part,
    "model-changed": lambda part: {**part, "model_name": "x"} if "model_name" in part else part,
    "version-changed": lambda part: {**part, "model_version": "x"} if "model_version" in part else part,
    "nothing-announced": lambda part: {**part, "extensions": []} if "extensions" in part else part,
    "counted-never": lambda part: {**part, "inference_count": 1} if "inference_count" in part else part,
    "text-changed": lambda part: {**part, "text_output": "x"} if "text_output" in part else part,
    "data-beside-bytes": lambda part: {**part, "data": [1]} if "parameters" in part else part,
    "sizes-off": lambda part: {**part, "binary_data_size": 1} if "binary_data_size" in part else part,
    "unavailable": lambda part: {**part, "state": "UNAVAILABLE"} if "state" in part else part,
}
"""Objects of JSON, wherever they are."""


def walked(value: Any, change: Callable[[Any], Any]) -> Any:
    """The value, in which each object is changed."""
    if isinstance(value, list):
        return [walked(part, change) for part in value]
    return (
        change({name: walked(part, change) for name, part in value.items()})
        if isinstance(value, dict)
        else value
    )


STREAMS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "done-mark": lambda lines: [*lines, b"data: [DONE]\n\n"],
    "id-lines": lambda lines: [b"id: 1\n" + line for line in lines],
    "error-dropped": lambda lines: [line for line in lines if b'"error"' not in line],
    "event-lost": lambda lines: lines[1:],
}
"""Events of REST."""


def mutate_events(
    wrong: frozenset[str], headers: Headers, events: Iterator[Any]
) -> tuple[Headers, Iterable[bytes]]:
    """The events that a wrong server sends in the place of these."""
    lines = (b"data: " + json.dumps(_event(wrong, event)).encode() + b"\n\n" for event in events)
    if "text-plain" in wrong:
        headers = {"Content-Type": "text/plain"}
    for name in wrong & STREAMS.keys():
        return headers, STREAMS[name](list(lines))
    return headers, lines


def _event(wrong: frozenset[str], event: Any) -> Any:
    for name in wrong:
        if change := json_change(name):
            event = walked(event, change)
    return event


def mutate_message(wrong: frozenset[str], response: Any) -> Any:
    """The message that a wrong server sends in the place of this."""
    for name in wrong:
        kind, _, key = name.partition(":")
        if kind == "emptied":
            _each(
                response,
                lambda part, key=key: part.ClearField(key) if key in part.DESCRIPTOR.fields_by_name else 0,
            )
        if name in MESSAGES:
            _each(response, MESSAGES[name])
    return response


def _each(part: Any, change: Callable[[Any], Any]) -> None:
    change(part)
    for field, value in part.ListFields():
        if field.message_type and not field.message_type.GetOptions().map_entry:
            for inner in [value] if isinstance(value, Message) else value:
                _each(inner, change)


def _flip(part: Any) -> None:
    raw = getattr(part, "raw_output_contents", [])
    for index, data in enumerate(raw):
        raw[index] = data[:-1] + bytes([data[-1] ^ 0x41]) if data else data
    if part.DESCRIPTOR.name == "InferTensorContents":
        for _, values in part.ListFields():
            values[0] = {bool: False, bytes: b"x"}.get(type(values[0]), 3)


def _mix(part: Any) -> None:
    if part.DESCRIPTOR.name == "ModelInferResponse":
        part.outputs[0].contents.int_contents.append(1)


def _reshape(part: Any) -> None:
    if "shape" in part.DESCRIPTOR.fields_by_name:
        part.shape[:] = [9, 9]


def _drop_raw(part: Any) -> None:
    if part.DESCRIPTOR.name == "ModelInferResponse" and len(part.raw_output_contents):
        part.raw_output_contents.pop()


def _unknown_extension(part: Any) -> None:
    if "extensions" in part.DESCRIPTOR.fields_by_name:
        part.extensions.append("x")


def _unavailable(part: Any) -> None:
    if part.DESCRIPTOR.name == "ModelIndex":
        part.state = "UNAVAILABLE"


def _to_wrong_field(part: Any) -> None:
    if part.DESCRIPTOR.name == "InferTensorContents":
        part.bytes_contents.append(b"x")
        part.bool_contents.append(True)


def _miscount(part: Any) -> None:
    if "inference_count" in part.DESCRIPTOR.fields_by_name:
        part.inference_count = 1


MESSAGES: dict[str, Callable[[Any], None]] = {
    "rpc-values": _flip,
    "rpc-mixed": _mix,
    "rpc-shapes": _reshape,
    "rpc-raw-missing": _drop_raw,
    "rpc-extensions": _unknown_extension,
    "rpc-unavailable": _unavailable,
    "rpc-fields": _to_wrong_field,
    "rpc-counted-never": _miscount,
}
"""Messages of gRPC, and those in them."""


def mutate_stream(wrong: frozenset[str], parts: Iterator[Any]) -> Iterator[bytes]:
    """The responses of a stream that a wrong server sends in the place of these."""
    if "rpc-last-response-alone" in wrong:
        parts = iter(list(parts)[-1:])
    for part in parts:
        if "rpc-no-final" in wrong and hasattr(part, "infer_response"):
            part.infer_response.parameters.clear()
        if "rpc-error-ends" in wrong and getattr(part, "error_message", ""):
            return
        if "rpc-second-unanswered" in wrong and getattr(part, "infer_response", part).id == "b":
            return
        yield mutate_message(wrong, part).SerializeToString()
