"""Query strings as flat JSON arguments."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

import orjson

from ...errors import InvalidRequest, ModelError
from ...types import MetadataTensor

MAX_QUERY_BYTES = 8 * 1024
"""Maximum bytes of a query string. Proxies reject much longer URLs."""

MAX_VALUES = 1000
"""Maximum number of values in a query string."""

TRUE_FALSE = {"true": True, "false": False, "1": True, "0": False}


def parse_query(query: bytes, inputs: Sequence[MetadataTensor]) -> dict[str, Any]:
    """Parse a query string into a flat object, with the data types of the declared inputs.

    A repeated name becomes a list. The value of an undeclared input is a number or a boolean if it is one in
    JSON, otherwise a string. Raises InvalidRequest, or ModelError with status 414 if the query is too long.
    """
    if len(query) > MAX_QUERY_BYTES:
        raise ModelError(
            f"The query is longer than {MAX_QUERY_BYTES} bytes. POST takes longer arguments.", 414
        )
    try:
        pairs = parse_qsl(
            query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_VALUES
        )
    except UnicodeDecodeError:
        raise InvalidRequest("The query is not percent-encoded UTF-8.") from None
    except ValueError:
        raise InvalidRequest(f"The query has more than {MAX_VALUES} values.") from None
    declared = {tensor.name: tensor for tensor in inputs}
    values: dict[str, list[Any]] = {}
    for name, text in pairs:
        values.setdefault(name, []).append(parse_value(name, text, declared))
    return {
        name: given[0] if len(given) == 1 and not is_list(declared.get(name)) else given
        for name, given in values.items()
    }


def is_list(tensor: MetadataTensor | None) -> bool:
    """Whether an input is a list, so that a single value becomes a list of one."""
    return tensor is not None and len(tensor.shape) > 0 and tensor.shape[0] == -1


def parse_value(name: str, text: str, declared: Mapping[str, MetadataTensor]) -> Any:
    tensor = declared.get(name)
    if tensor is None:
        return text if name == "id" else _guess_value(text)
    if tensor.parameters is not None and tensor.parameters.content_type == "json":
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            raise InvalidRequest(f'argument "{name}" takes JSON, got {text[:100]!r}') from None
    kind = tensor.datatype
    if kind == "BYTES":
        return text
    if kind == "BOOL":
        if text.lower() not in TRUE_FALSE:
            raise InvalidRequest(f'argument "{name}" takes true or false, got {text[:100]!r}')
        return TRUE_FALSE[text.lower()]
    whole = kind.startswith(("INT", "UINT"))
    try:
        return int(text) if whole else float(text)
    except ValueError:
        what = "a whole number" if whole else "a number"
        raise InvalidRequest(f'argument "{name}" takes {what}, got {text[:100]!r}') from None


def _guess_value(text: str) -> Any:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return value if isinstance(value, bool | int | float) else text
