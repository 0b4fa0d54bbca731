"""Parses the request fields that KServe, MLflow, SageMaker and Vertex AI document."""

import base64
from collections.abc import Mapping
from typing import Any

from inferstream.errors import InvalidRequest
from inferstream.ext.http import JsonBody
from inferstream.ext.runtimes import Signature

FRAMES = ("dataframe_split", "dataframe_records")
"""The data frame fields of MLflow clients."""

PAYLOADS = ("instances", "inputs", *FRAMES)
"""The fields that can contain the instances. A request has exactly one of them."""

PARAMETERS = ("parameters", "params")
"""The parameter fields of Vertex AI and MLflow."""

SIGNATURE = "signature_name"
"""A TensorFlow Serving field. It has no effect, because models have one signature."""

MAY_BE_JSON = (b"", b"text/plain", b"application/x-www-form-urlencoded")
"""Media types that are accepted for JSON, because curl and browsers send them by default."""


def read_json(media_type: bytes, body: bytes) -> JsonBody:
    """Parse a JSON body. Raises InvalidRequest, which names the media type if it is not JSON."""
    try:
        return JsonBody(body)
    except InvalidRequest:
        media_type = media_type.partition(b";")[0].strip().lower()
        if media_type in MAY_BE_JSON or media_type.endswith(b"json"):
            raise
        raise InvalidRequest(
            f"content-type: {media_type[:80].decode('latin-1')} is not read here; send JSON, such as "
            '{"dataframe_split": {"columns": […], "data": […]}}'
        ) from None


def parse_instances(document: Mapping[str, Any]) -> Any:
    """Return the instances of a request: a list as in `JsonBody`, or an object with whole inputs by name.

    Raises InvalidRequest.
    """
    for name in document:
        if name not in (*PAYLOADS, *PARAMETERS, SIGNATURE):
            known = ", ".join(f'"{each}"' for each in (*PAYLOADS, *PARAMETERS))
            raise InvalidRequest(f'"{name[:40]}" is not a field of this request; it has {known}')
    given = [name for name in PAYLOADS if name in document] or ["instances"]
    if len(given) > 1:
        raise InvalidRequest(f'"{given[0]}" and "{given[1]}" are both given; a request has one of them')
    instances = document.get(given[0])
    if given[0] == "inputs" and isinstance(instances, dict) and instances:
        return instances
    if given[0] == "dataframe_split":
        instances = _rows(instances)
    if JsonBody.is_list(instances) and instances:
        return instances
    raise InvalidRequest(f'"{given[0]}" must be a list with an instance or more')


def is_frame(document: Mapping[str, Any], instances: Any, signature: Signature) -> bool:
    """Whether the instances are rows of a data frame, and not objects with the model's inputs."""
    if signature.function or document.keys().isdisjoint(FRAMES) or type(instances) is not list:
        return False
    names = {tensor.name for tensor in (*(signature.inputs or ()), *signature.described)}
    return isinstance(instances[0], dict) and names.isdisjoint(instances[0])


def _rows(frame: Any) -> Any:
    """Return the rows of a data frame in pandas' `orient="split"` format.

    Rows are objects if the columns are named.
    """
    if not isinstance(frame, dict) or "data" not in frame or not frame.keys() <= {"index", "columns", "data"}:
        raise InvalidRequest('"dataframe_split" must be an object of "columns", "data" and perhaps "index"')
    columns, rows = frame.get("columns"), frame["data"]
    if columns is None:
        return rows
    columns = _require_list(columns, "columns")
    if len({*map(str, columns)}) < len(columns):
        raise InvalidRequest('"dataframe_split": a name is twice among the columns')
    named: list[Any] = []
    for index, row in enumerate(_require_list(rows, "data")):
        values = _require_list(row, f"data[{index}]")
        if len(values) != len(columns):
            raise InvalidRequest(
                f'"dataframe_split": row {index} has {len(values)} values, and there are {len(columns)} columns'
            )
        named.append(dict(zip(map(str, columns), values, strict=True)))
    return named


def _require_list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidRequest(f'"dataframe_split": "{name}" must be a list')
    return value


def parse_parameters(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parameters of a request. Raises InvalidRequest."""
    first, *others = [name for name in PARAMETERS if document.get(name)] or [PARAMETERS[0]]
    if others:
        raise InvalidRequest(f'"{first}" and "{others[0]}" are both given; a request has one of them')
    given = document.get(first) or {}
    refused = dict if first == "params" else (dict, list)  # MLflow parameters can be lists.
    if not isinstance(given, dict) or any(isinstance(each, refused) for each in given.values()):
        raise InvalidRequest(f'"{first}" must be an object of strings, numbers and booleans')
    return given


def decode_bytes(value: Any) -> Any:
    """Replace each `{"b64": …}` in a document with bytes. Raises InvalidRequest."""
    if isinstance(value, list):
        return [decode_bytes(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() != {"b64"}:
        return {name: decode_bytes(each) for name, each in value.items()}
    try:
        return base64.b64decode(value["b64"], validate=True)
    except (TypeError, ValueError):
        raise InvalidRequest('"b64" must be a string in base64') from None
