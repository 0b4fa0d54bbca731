"""Arguments in the query of a URL, as flat JSON."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

import orjson

from ...errors import InvalidRequest, ModelError
from ...types import MetadataTensor

LONGEST = 8 * 1024
"""Bytes of a query; proxies refuse much longer URLs."""

MOST = 1000
"""Values in a query."""

TRUE_FALSE = {"true": True, "false": False, "1": True, "0": False}


def arguments_of(query: bytes, inputs: Sequence[MetadataTensor]) -> dict[str, Any]:
    """The flat object of a query, whose values have the types of the declared inputs.

    A name that is given several times is a list. A value of no declared input is a number or a boolean if it is one
    in JSON, else a text. Raises InvalidRequest, and a 414 for a query that is too long.
    """
    if len(query) > LONGEST:
        raise ModelError(f"The query is longer than {LONGEST} bytes. POST takes longer arguments.", 414)
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST)
    except UnicodeDecodeError:
        raise InvalidRequest("The query is not percent-encoded UTF-8.") from None
    except ValueError:
        raise InvalidRequest(f"The query has more than {MOST} values.") from None
    declared = {tensor.name: tensor for tensor in inputs}
    values: dict[str, list[Any]] = {}
    for name, text in pairs:
        values.setdefault(name, []).append(value_of(name, text, declared))
    return {
        name: given[0] if len(given) == 1 and not is_list(declared.get(name)) else given
        for name, given in values.items()
    }


def is_list(tensor: MetadataTensor | None) -> bool:
    """Whether one value of an input is a list of one."""
    return tensor is not None and len(tensor.shape) > 0 and tensor.shape[0] == -1


def value_of(name: str, text: str, declared: Mapping[str, MetadataTensor]) -> Any:
    tensor = declared.get(name)
    if tensor is None:
        return text if name == "id" else _guessed(text)
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


def _guessed(text: str) -> Any:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return value if isinstance(value, bool | int | float) else text
