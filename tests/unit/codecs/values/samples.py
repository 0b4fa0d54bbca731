"""Types of arguments and values of each, and the forms in which tensors travel."""

import dataclasses
import enum
import math
import typing
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import orjson
from pydantic import BaseModel, Field
from typing_extensions import TypeAliasType, TypedDict

from inferstream.codecs.values.base import Value
from inferstream.codecs.values.declared import value_of_tensor
from inferstream.types import RequestInput, TensorData


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.0


class Person(BaseModel):
    name: str
    born: date
    boss: "Person | None" = None
    renamed: int = Field(0, alias="re-named")


class Movie(TypedDict, total=False):
    title: str
    year: int


class Pair(NamedTuple):
    left: str
    right: int


UserId = typing.NewType("UserId", int)

Scalar = typing.TypeVar("Scalar", bound=np.generic)
Aliased = TypeAliasType(
    "Aliased", np.ndarray[tuple[int, ...], np.dtype[Scalar]], type_params=(Scalar,)
)  # NDArray of numpy 2.5

DAY = date(2024, 2, 29)
NOON = datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=UTC)

SAMPLES: list[tuple[Any, Any]] = [
    (str, ""),
    (str, "a\0b é 🎈"),
    (bytes, b""),
    (bytes, b"\xff\x00text"),
    (bytes, b"plain text"),
    (int, 2**63 - 1),
    (int, -(2**63)),
    (float, -0.0),
    (float, 1e308),
    (float, math.inf),
    (bool, True),
    (datetime, NOON),
    (date, DAY),
    (time, time(1, 2, 3)),
    (np.uint8, 255),
    (np.float32, 0.5),
    (UserId, 7),
    (Literal["a", "b"], "a"),
    (Literal[1, 2], 2),
    (Color, Color.BLUE),
    (Level, Level.HIGH),
    (list[str], []),
    (list[str], ["", "é", "\0"]),
    (list[bytes], [b"\xff", b"", b"abc"]),
    (list[bytes], [b"abc", b"plain"]),
    (list[int], [1, -(2**63), 2**63 - 1]),
    (list[float], [0.5, -1.0]),
    (list[bool], [True, False]),
    (list[datetime], [NOON]),
    (list[Color], [Color.RED, Color.BLUE]),
    (Sequence[int], [3, 4]),
    (list[list[int]], [[1], [2, 3]]),
    (list[Point], [Point(1), Point(2, 0.5)]),
    (dict[str, Any], {"a": [1, None, {"b": "c"}]}),
    (dict[str, int], {"a": 1}),
    (Any, {"free": [True]}),
    (int | str, "either"),
    (Point, Point(1, 2.5)),
    (Person, Person(name="Ö", born=DAY, boss=Person(name="b", born=DAY), **{"re-named": 3})),
    (Movie, {"title": "M", "year": 1931}),
    (Pair, Pair("l", 3)),
    (tuple[int, str], (1, "b")),
    (Annotated[int, Field(gt=0)], 3),
    (Annotated[list[int], Field(max_length=2)], [1, 2]),
    (Annotated[dict[str, int], Field(min_length=1)], {"a": 1}),
]


def identity(sample: tuple[Any, Any]) -> str:
    return f"{getattr(sample[0], '__name__', sample[0])}-{sample[1]!r}"[:60]


def through_binary(tensor: Any) -> Any:
    """The same tensor as gRPC and binary tensors carry it."""
    raw = TensorData.from_raw(bytes(tensor.data.to_raw(tensor.datatype)), tensor.datatype)
    return type(tensor).of(**{**tensor.__dict__, "data": raw})


def through_json(value: Value, name: str, tensor: RequestInput) -> RequestInput:
    """The same values as a client writes them in JSON: as the flat object has them."""
    flat = orjson.loads(orjson.dumps(value.to_json(value.read(tensor))))
    return value_of_tensor(value.tensor(name)).input_from_flat(name, flat)


def untyped(name: str, values: Any) -> RequestInput:
    """The tensor of a client that does not know the types."""
    flat = values if isinstance(values, list) else [values]
    kinds: dict[type, str] = {bool: "BOOL", int: "INT64", float: "FP64"}
    return RequestInput.of(
        name=name, datatype=kinds.get(type(flat[0]), "BYTES"), shape=[len(flat)], data=TensorData(flat)
    )
