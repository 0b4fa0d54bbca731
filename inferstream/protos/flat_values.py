"""Values of flat JSON: nested lists, table rows, and datatypes of undeclared inputs."""

from itertools import chain
from typing import Any

from ..errors import InvalidRequest
from ..types.conversion import MAX_RANK


def flatten(name: str, value: Any) -> tuple[list[Any], list[int]]:
    """Return the values of nested lists as a flat list, and their shape.

    Raises InvalidRequest for objects, and for lists that are ragged or nested too deeply.
    """
    level: list[Any] = value if isinstance(value, list) else [value]
    shape = [len(level)]
    while list in (kinds := set(map(type, level))):
        if len(shape) == MAX_RANK:
            raise InvalidRequest(f'input "{name}" is nested deeper than {MAX_RANK} levels')
        if kinds != {list} or len(set(map(len, level))) > 1:
            raise _ragged_error(name, level, shape)
        shape.append(len(level[0]))
        level = list(chain.from_iterable(level))
    if dict in kinds:
        raise InvalidRequest(f'input "{name}" must be a value or lists of values, not an object')
    return level, shape


def _ragged_error(name: str, level: list[Any], shape: list[int]) -> InvalidRequest:
    """Return the error for lists of different lengths. `level` is the flat list of their elements."""
    sizes = [f"a list of {len(item)}" if type(item) is list else "a value" for item in level]
    odd = next(position for position, size in enumerate(sizes) if size != sizes[0])
    there, first = (f"{name}{_format_index(position, shape)} is {sizes[position]}" for position in (odd, 0))
    return InvalidRequest(f'input "{name}" is ragged: {there}, and {first}')


def _format_index(position: int, shape: list[int]) -> str:
    """Return the index of a position in the flat list, such as `[1][0]`."""
    indices = []
    for size in reversed(shape):
        position, index = divmod(position, size)
        indices.append(f"[{index}]")
    return "".join(reversed(indices))


def guess_datatype(values: list[Any]) -> str:
    """Return the datatype of the first value that is not null.

    Integers mixed with nulls or fractions are FP64.
    """
    first = next((value for value in values if value is not None), None)
    if type(first) is int and any(value is None or (type(value) is float and value % 1) for value in values):
        return "FP64"
    return {bool: "BOOL", int: "INT64", float: "FP64"}.get(type(first), "BYTES")


def fits(datatype: str, kinds: set[type]) -> bool:
    """Whether a datatype can hold values of these Python types."""
    if datatype == "BYTES":
        return kinds <= {str, bytes, type(None)}
    if datatype == "BOOL":
        return kinds <= {bool}
    return kinds <= ({int, float, type(None)} if datatype.startswith("FP") else {int})


def to_columns(rows: list[Any]) -> dict[str, Any]:
    """Return the columns of a table, given as a list of rows.

    Raises InvalidRequest unless the rows are objects with the same keys.
    """
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise InvalidRequest("The body must be a JSON object, or a list of objects, one for each row.")
    for index, row in enumerate(rows):
        if row.keys() != rows[0].keys():
            name = min(row.keys() ^ rows[0].keys())
            lacking = index if name not in row else 0
            raise InvalidRequest(f'row {lacking} has no "{name}", which row {index - lacking} has')
    return {name: [row[name] for row in rows] for name in rows[0]}
