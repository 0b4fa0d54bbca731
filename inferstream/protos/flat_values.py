"""Values of flat JSON: nested lists, rows of tables, and the datatypes of values that no input declares."""

from itertools import chain
from typing import Any

from ..errors import InvalidRequest
from ..types.conversion import MAX_RANK


def flattened(name: str, value: Any) -> tuple[list[Any], list[int]]:
    """The values in nested lists, and the shape of the lists. Raises InvalidRequest, which names the place."""
    level: list[Any] = value if isinstance(value, list) else [value]
    shape = [len(level)]
    while list in (kinds := set(map(type, level))):
        if len(shape) == MAX_RANK:
            raise InvalidRequest(f'input "{name}" is nested deeper than {MAX_RANK} levels')
        if kinds != {list} or len(set(map(len, level))) > 1:
            raise _ragged(name, level, shape)
        shape.append(len(level[0]))
        level = list(chain.from_iterable(level))
    if dict in kinds:
        raise InvalidRequest(f'input "{name}" must be a value or lists of values, not an object')
    return level, shape


def _ragged(name: str, level: list[Any], shape: list[int]) -> InvalidRequest:
    """The error for lists whose lengths differ; `level` are all elements of the lists of `shape`."""
    sizes = [f"a list of {len(item)}" if type(item) is list else "a value" for item in level]
    odd = next(position for position, size in enumerate(sizes) if size != sizes[0])
    there, first = (f"{name}{_place(position, shape)} is {sizes[position]}" for position in (odd, 0))
    return InvalidRequest(f'input "{name}" is ragged: {there}, and {first}')


def _place(position: int, shape: list[int]) -> str:
    """An index as it is written: `[1][0]`."""
    indices = []
    for size in reversed(shape):
        position, index = divmod(position, size)
        indices.append(f"[{index}]")
    return "".join(reversed(indices))


def guessed(values: list[Any]) -> str:
    """The datatype of the first value, or FP64 for numbers of which some are missing or have a fraction."""
    first = next((value for value in values if value is not None), None)
    if type(first) is int and any(value is None or (type(value) is float and value % 1) for value in values):
        return "FP64"
    return {bool: "BOOL", int: "INT64", float: "FP64"}.get(type(first), "BYTES")


def fits(datatype: str, kinds: set[type]) -> bool:
    """Whether values of these types can be values of a datatype."""
    if datatype == "BYTES":
        return kinds <= {str, bytes, type(None)}
    if datatype == "BOOL":
        return kinds <= {bool}
    return kinds <= ({int, float, type(None)} if datatype.startswith("FP") else {int})


def columns_of(rows: list[Any]) -> dict[str, Any]:
    """The columns of a table that is given as a list of rows. Each row has the keys of the first."""
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise InvalidRequest("The body must be a JSON object, or a list of objects, one for each row.")
    for index, row in enumerate(rows):
        if row.keys() != rows[0].keys():
            name = min(row.keys() ^ rows[0].keys())
            lacking = index if name not in row else 0
            raise InvalidRequest(f'row {lacking} has no "{name}", which row {index - lacking} has')
    return {name: [row[name] for row in rows] for name in rows[0]}
