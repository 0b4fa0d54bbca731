"""JSON-RPC 2.0 requests, results and errors."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from inferstream.errors import Code, InferstreamError, InvalidRequest, ModelNotFound
from inferstream.ext.http import (
    dump_json,
    error_headers,
    keys_in,
    parse_json,
    refuse_duplicate_keys,
    status_of,
)

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
SERVER_ERROR = -32000
"""A code from the range for implementation-defined errors. `data` has the details."""

MAX_BYTES = 4 * 2**20
"""Maximum size in bytes of a body with ids beyond 64 bits, which require a second, slower parser."""

MAX_CALLS = 1024
"""Maximum number of calls in a batch."""


class WrongMessage(InferstreamError):
    """An invalid JSON-RPC message, with its error code."""

    code = Code.INVALID

    def __init__(self, message: str, number: int = INVALID_REQUEST) -> None:
        super().__init__(message)
        self.number = number


class RpcMessage(NamedTuple):
    """One request of a body."""

    id: str | int | float | None
    answered: bool
    """Whether it has an id, which means that the client expects a response."""
    method: str
    params: dict[str, Any] | list[Any]


def load(body: bytes) -> Any:
    """Parse the JSON of a body. Raises WrongMessage."""
    try:
        document, text = parse_json(body, exact=True)
        refuse_duplicate_keys(text, keys_in(document))
        _restore_ids(document, body)
    except orjson.JSONDecodeError as error:
        raise WrongMessage(f"Parse error: {error}", PARSE_ERROR) from None
    except InvalidRequest as error:
        raise WrongMessage(error.message) from None
    return document


def _restore_ids(document: Any, body: bytes) -> None:
    """Restore integer ids beyond 64 bits, which the fast parser returns as rounded floats."""
    requests = document if isinstance(document, list) else [document]
    rounded = [
        index
        for index, each in enumerate(requests)
        if isinstance(each, dict) and type(each.get("id")) is float
    ]
    if not rounded:
        return
    if len(body) > MAX_BYTES:
        raise InvalidRequest(f"An integer beyond 64 bits is an id in a body of at most {MAX_BYTES} bytes.")
    try:
        reread = json.loads(body)
    except RecursionError:
        raise InvalidRequest("The body is nested too deeply.") from None
    exact = reread if isinstance(document, list) else [reread]
    for index in rounded:
        requests[index]["id"] = exact[index]["id"]


def split_batch(document: Any) -> list[Any] | None:
    """Return the requests of a batch, or None for a single request.

    Raises WrongMessage if the batch is empty or too large.
    """
    if not isinstance(document, list):
        return None
    if not document:
        raise WrongMessage("The batch is empty.")
    if len(document) > MAX_CALLS:
        raise WrongMessage(f"The batch holds {len(document)} calls; at most {MAX_CALLS} are allowed.")
    return document


def find_id(document: Any) -> str | int | float | None:
    """Return the id of a possibly invalid request. Returns None if it is missing or unusable."""
    id = document.get("id") if isinstance(document, dict) else None
    if isinstance(id, str):
        return id if id.isprintable() else None
    return id if isinstance(id, int | float) and not isinstance(id, bool) else None


def parse_message(document: Any) -> RpcMessage:
    """Parse a request. Raises WrongMessage naming the invalid member."""
    if not isinstance(document, dict):
        raise WrongMessage("A request is an object.")
    if document.get("jsonrpc") != "2.0":
        raise WrongMessage('"jsonrpc" must be "2.0".')
    if document.get("id") is not None and find_id(document) is None:
        raise WrongMessage('"id" must be printable characters, a number or null.')
    method = document.get("method")
    if not isinstance(method, str) or not method:
        raise WrongMessage('"method" must be the name of a model.')
    params = document.get("params", {})
    if not isinstance(params, dict | list):
        raise WrongMessage('"params" must be an object or a list.', INVALID_PARAMS)
    return RpcMessage(find_id(document), "id" in document, method, params)


def result_document(id: str | int | float | None, result: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","result":%b,"id":%b}' % (result, _id_text(id))


def _id_text(id: str | int | float | None) -> bytes:
    return b"%d" % id if isinstance(id, int) else orjson.dumps(id)  # orjson is limited to 64 bits.


def list_document(results: Sequence[bytes]) -> bytes:
    """Encode a JSON list."""
    return b"[%b]" % b",".join(results)


def error_document(id: str | int | float | None, error: InferstreamError) -> bytes:
    fault: dict[str, Any] = {"code": error_code(error), "message": error.message}
    if not isinstance(error, WrongMessage):
        fault["data"] = {"code": error.code.value, "status": status_of(error).http}
        if (seconds := dict(error_headers(error)).get(b"retry-after", b"")).isdigit():
            fault["data"]["retry_after"] = int(seconds)
    return dump_json({"jsonrpc": "2.0", "error": fault, "id": orjson.Fragment(_id_text(id))})


def error_code(error: InferstreamError) -> int:
    """Return the JSON-RPC code of an error."""
    if isinstance(error, WrongMessage):
        return error.number
    if isinstance(error, ModelNotFound):
        return METHOD_NOT_FOUND
    if isinstance(error, InvalidRequest):
        return INVALID_PARAMS
    return INTERNAL_ERROR if error.code is Code.INTERNAL else SERVER_ERROR
