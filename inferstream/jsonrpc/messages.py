"""Requests, results and errors of JSON-RPC 2.0 as JSON."""

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
"""Of the numbers for errors of an implementation's own; `data` says more."""

MOST_BYTES = 4 * 2**20
"""Bytes of a body whose ids may be integers beyond 64 bits, which the fast parser does not read."""

MOST_CALLS = 1024
"""Calls of one batch."""


class WrongMessage(InferstreamError):
    """A message that is no request of JSON-RPC, with the number of its error."""

    code = Code.INVALID

    def __init__(self, message: str, number: int = INVALID_REQUEST) -> None:
        super().__init__(message)
        self.number = number


class RpcMessage(NamedTuple):
    """One request of a body."""

    id: str | int | float | None
    answered: bool
    """Whether it has an id, so that its client wants an answer."""
    method: str
    params: dict[str, Any] | list[Any]


def load(body: bytes) -> Any:
    """The JSON of a body. Raises WrongMessage."""
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
    """Make ids that were read as floats what their clients sent: an integer beyond 64 bits is a rounded float."""
    requests = document if isinstance(document, list) else [document]
    rounded = [
        index
        for index, each in enumerate(requests)
        if isinstance(each, dict) and type(each.get("id")) is float
    ]
    if not rounded:
        return
    if len(body) > MOST_BYTES:
        raise InvalidRequest(f"An integer beyond 64 bits is an id in a body of at most {MOST_BYTES} bytes.")
    try:
        reread = json.loads(body)
    except RecursionError:
        raise InvalidRequest("The body is nested too deeply.") from None
    exact = reread if isinstance(document, list) else [reread]
    for index in rounded:
        requests[index]["id"] = exact[index]["id"]


def batch_of(document: Any) -> list[Any] | None:
    """The documents of a batch; None for a single request. Raises WrongMessage for an empty or too large one."""
    if not isinstance(document, list):
        return None
    if not document:
        raise WrongMessage("The batch is empty.")
    if len(document) > MOST_CALLS:
        raise WrongMessage(f"The batch holds {len(document)} calls; at most {MOST_CALLS} are allowed.")
    return document


def id_of(document: Any) -> str | int | float | None:
    """The id of a request that may be wrong; None if it has none that could be returned."""
    id = document.get("id") if isinstance(document, dict) else None
    if isinstance(id, str):
        return id if id.isprintable() else None
    return id if isinstance(id, int | float) and not isinstance(id, bool) else None


def message_of(document: Any) -> RpcMessage:
    """A request. Raises WrongMessage, which names the member that is wrong."""
    if not isinstance(document, dict):
        raise WrongMessage("A request is an object.")
    if document.get("jsonrpc") != "2.0":
        raise WrongMessage('"jsonrpc" must be "2.0".')
    if document.get("id") is not None and id_of(document) is None:
        raise WrongMessage('"id" must be printable characters, a number or null.')
    method = document.get("method")
    if not isinstance(method, str) or not method:
        raise WrongMessage('"method" must be the name of a model.')
    params = document.get("params", {})
    if not isinstance(params, dict | list):
        raise WrongMessage('"params" must be an object or a list.', INVALID_PARAMS)
    return RpcMessage(id_of(document), "id" in document, method, params)


def result_document(id: str | int | float | None, result: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","result":%b,"id":%b}' % (result, _id_text(id))


def _id_text(id: str | int | float | None) -> bytes:
    return b"%d" % id if isinstance(id, int) else orjson.dumps(id)  # orjson writes 64 bits


def list_document(results: Sequence[bytes]) -> bytes:
    """A JSON list."""
    return b"[%b]" % b",".join(results)


def error_document(id: str | int | float | None, error: InferstreamError) -> bytes:
    fault: dict[str, Any] = {"code": number_of(error), "message": error.message}
    if not isinstance(error, WrongMessage):
        fault["data"] = {"code": error.code.value, "status": status_of(error).http}
        if (seconds := dict(error_headers(error)).get(b"retry-after", b"")).isdigit():
            fault["data"]["retry_after"] = int(seconds)
    return dump_json({"jsonrpc": "2.0", "error": fault, "id": orjson.Fragment(_id_text(id))})


def number_of(error: InferstreamError) -> int:
    """The number of an error in JSON-RPC."""
    if isinstance(error, WrongMessage):
        return error.number
    if isinstance(error, ModelNotFound):
        return METHOD_NOT_FOUND
    if isinstance(error, InvalidRequest):
        return INVALID_PARAMS
    return INTERNAL_ERROR if error.code is Code.INTERNAL else SERVER_ERROR
