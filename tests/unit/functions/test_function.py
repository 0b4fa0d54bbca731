"""Functions that can be models, and those that cannot."""

from __future__ import annotations

import inspect
import math
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from inferstream import App, Depends, MLModel, TensorInput
from inferstream.errors import InvalidSettings
from inferstream.functions.function import Function
from inferstream.functions.model import resolve_model_class
from inferstream.types import MetadataTensor

HERE = Path(__file__).name


class Strange:
    pass


def unannotated(a, b: int) -> int:  # type: ignore[no-untyped-def]
    return b


def unknown(a: int, b: Strange) -> int:
    return a


def misspelled(a: int, b: Nowhere) -> int:  # type: ignore[name-defined]  # noqa: F821
    return a


def misspelled_result(a: int) -> list[Nowhere]:  # type: ignore[name-defined]  # noqa: F821
    return []


def variadic(*a: int) -> int:
    return 0


def keywords(**a: int) -> int:
    return 0


def positional(a: int, /) -> int:
    return a


def returns_nothing_said(a: int):  # type: ignore[no-untyped-def]
    return a


async def yields_unsaid(a: int):  # type: ignore[no-untyped-def]
    yield a


def blocking_yields_unsaid(a: int):  # type: ignore[no-untyped-def]
    yield a


def returns_strange(a: int) -> Strange:
    return Strange()


Foreign = type("Tensor", (), {"__module__": "torch"})


def takes_a_tensor(a: Foreign) -> int:  # type: ignore[valid-type]
    return 0


def bare_stream(a: AsyncIterator) -> Iterator[int]:  # type: ignore[type-arg]
    yield 1


def bare_result() -> Iterator:  # type: ignore[type-arg]
    yield 1


def two_streams(a: Iterator[int], b: Iterator[int]) -> int:
    return 0


async def blocking_stream(a: Iterator[int]) -> int:
    return 0


def awaiting_stream(a: AsyncIterator[int]) -> int:
    return 0


def wrong_generator() -> AsyncIterator[int]:
    yield 1  # type: ignore[misc]


def fields_as_defaults(a: int = Field(3, gt=0)) -> int:
    return a


class Color(Enum):
    RED = "red"


@dataclass
class Point:
    x: int


class Named(NamedTuple):
    x: int


class Model(BaseModel):
    x: int = 0


def defaulted(hint: Any, default: Any) -> Callable[..., None]:
    def taken(a: Any) -> None: ...

    taken.__annotations__["a"] = hint
    taken.__defaults__ = (default,)
    return taken


MISFITS = [
    (int, "x", "takes an integer, got 'x'"),
    (int, True, "takes an integer, got true"),
    (int, 2**63, "is out of range for INT64"),
    (int | None, "x", "takes an integer, got 'x'"),
    (bytes, "x", "takes bytes, got 'x'"),
    (bool, 1, "takes true or false, got 1"),
    (datetime, "noon", "takes a datetime, got 'noon'"),
    (Color, "red", "takes a member of Color, got 'red'"),
    (Literal["a"], "b", "takes one of 'a', got 'b'"),
    (list[int], ["x"], "element 0 takes an integer"),
    (dict[str, int], {"a": "1"}, 'field "a": input should be a valid integer'),
    (Point, {"x": 1}, "input should be an instance of Point"),
    (Model, {}, "takes an instance of Model, got {}"),
    (Named, (1,), "takes an instance of Named, got (1,)"),
    (NDArray[np.float32], [1.0], "takes an array, got [1.0]"),
    (TensorInput[np.float32, "n", 2], np.zeros((1, 3), np.float32), "takes shape [n, 2], got [1, 3]"),
    (Annotated[int, Field(gt=0)], 0, "input should be greater than 0"),
]


@pytest.mark.parametrize(("hint", "default", "reason"), MISFITS)
def test_default_not_matching_its_annotation_is_refused(hint: Any, default: Any, reason: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        Function(defaulted(hint, default), "taken")
    assert 'function defaulted.<locals>.taken: parameter "a": its default does not fit ' in str(caught.value)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("hint", "default"),
    [
        *((hint, None) for hint, _, _ in MISFITS),
        (float, 1),
        (float, math.nan),
        (bytes, b"x"),
        (Color, Color.RED),
        (Literal["a", None], "a"),
        (date, date(2024, 5, 6)),
        (list[Color], [Color.RED]),
        (Sequence[int], (1, 2)),
        (tuple[int, str], (1, "a")),
        (set[int], {1}),
        (dict, {}),
        (int | str, "x"),
        (Any, object()),
        (Point, Point(1)),
        (dict[str, Point], {"a": Point(1)}),
        (Model, Model(x=1)),
        (Named, Named(1)),
        (np.float32, 0.5),
        (NDArray[np.float32], np.zeros(3, np.float32)),
        (Annotated[int, Field(gt=0)], 1),
    ],
)
def test_default_matching_its_annotation_is_accepted(hint: Any, default: Any) -> None:
    [argument] = Function(defaulted(hint, default), "taken").arguments.arguments
    assert argument.default is default


def needs_more(a: int) -> int:
    return a


def left(a: str = "") -> str:
    return a


def right(a: str = Depends(left)) -> str:
    return a


left.__defaults__ = (Depends(right),)


def circle(a: str = Depends(left)) -> str:
    return a


def unfillable(a: str = Depends(needs_more)) -> str:
    return a


def yields() -> Iterator[str]:
    yield ""


def on_generator(a: str = Depends(yields)) -> str:
    return a


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (unannotated, 'parameter "a": it has no annotation'),
        (unknown, 'parameter "b": Strange is not a type that can be sent'),
        (
            misspelled,
            "parameter \"b\": its annotation 'Nowhere' cannot be read: name 'Nowhere' is not defined",
        ),
        (misspelled_result, "return value: its annotation 'list[Nowhere]' cannot be read"),
        (variadic, 'parameter "a": a model cannot take *a'),
        (keywords, 'parameter "a": a model cannot take **a'),
        (positional, 'parameter "a": a model cannot take a: '),
        (returns_nothing_said, "return value: it has no annotation; write -> None"),
        (
            yields_unsaid,
            "return value: it has no annotation; the function yields: write -> AsyncIterator[T]",
        ),
        (
            blocking_yields_unsaid,
            "return value: it has no annotation; the function yields: write -> Iterator[T]",
        ),
        (returns_strange, "return value: Strange is not a type that can be sent"),
        (
            takes_a_tensor,
            'parameter "a": Tensor is not a type that can be sent; hint: write NDArray[np.float32], and '
            "torch.from_numpy(x) or y.numpy() in the function",
        ),
        (bare_stream, 'parameter "a": the type of its items is missing: write AsyncIterator[str]'),
        (bare_result, "return value: the type of its items is missing: write Iterator[str]"),
        (two_streams, 'parameter "b": a model can read one stream only'),
        (blocking_stream, 'parameter "a": an `async def` reads AsyncIterator[T]'),
        (awaiting_stream, 'parameter "a": a `def` reads Iterator[T]'),
        (wrong_generator, "return value: a `def` that yields returns Iterator[T]"),
        (fields_as_defaults, 'parameter "a": write Annotated[int, Field(...)]'),
        (circle, 'parameter "a": Depends(left) depends on itself'),
        (unfillable, 'parameter "a": Depends(needs_more): nothing fills its parameter "a"'),
        (on_generator, 'parameter "a": Depends(yields) yields'),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_error_names_file_line_function_and_parameter(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        App().model(function)
    line = inspect.getsourcelines(function)[1]
    assert caught.value.message.startswith(f"{HERE}, line {line}, function {function.__name__}: {message}")
    assert "\n" not in caught.value.message


def numbers(xs: list[int]) -> list[int]:
    return xs


def number(x: int) -> list[int]:
    return [x]


def total(xs: list[int]) -> int:
    return sum(xs)


def stream(xs: list[int]) -> Iterator[list[int]]:
    yield xs


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (number, 'parameter "x": a function of batches takes lists'),
        (total, "return value: a function of batches returns lists"),
        (stream, "a function that streams cannot take a batch"),
        (lambda: None, "return value: it has no annotation"),
    ],
)
def test_batch_function_takes_and_returns_lists(function: Callable[..., Any], message: str) -> None:
    App().model(batch=4)(numbers)
    with pytest.raises(InvalidSettings) as caught:
        App().model(batch=4)(function)
    assert message in caught.value.message


def test_streaming_options_need_a_generator_function() -> None:
    with pytest.raises(InvalidSettings, match="streaming=True needs a function that yields"):
        App().model(streaming=True)(number)
    with pytest.raises(InvalidSettings, match="it yields, so it streams"):
        App().model(streaming=False)(yields)


def test_batch_limits_need_a_batch_function() -> None:
    with pytest.raises(InvalidSettings, match="function number: within_ms needs batch"):
        App().model(within_ms=5)(number)
    for limits in ({"batch": -1}, {"batch": 4, "within_ms": -1}):
        with pytest.raises(InvalidSettings, match="function number: batch and within_ms cannot be negative"):
            App().model(**limits)(number)  # type: ignore[call-overload]


def test_step_function_needs_admit_and_a_list() -> None:
    app = App()

    def step(states: list[Any]) -> list[str | None]:
        return []

    with pytest.raises(InvalidSettings, match="a step returns a list"):
        App().steps()(total)
    with pytest.raises(InvalidSettings, match="is not a function"):
        App().steps(Strange)  # type: ignore[call-overload]
    made = app.steps(step)
    assert made is app["step"]
    with pytest.raises(InvalidSettings, match=r"mark the function that begins a stream by @step\.admit"):
        app.settings()
    with pytest.raises(InvalidSettings, match='admit: parameter "a": it has no annotation'):
        made.admit(unannotated)


def described(
    plain: int,
    said: Annotated[str, "Said in the annotation."] = "x",
    field: Annotated[int, Field(gt=0, description="Said in the field.")] = 1,
) -> str:
    """Say things.

    Args:
        plain (int): Said here,
            in two lines.
        said: overruled
    Returns:
        plain: nothing
    """
    return said


def test_metadata_describes_arguments() -> None:
    inputs = Function(described, "described").signature().inputs
    assert inputs is not None
    assert [parameter(tensor, "description") for tensor in inputs] == [
        "Said here, in two lines.",
        "Said in the annotation.",
        "Said in the field.",
    ]
    assert [parameter(tensor, "default") for tensor in inputs] == [None, '"x"', "1"]
    assert [parameter(tensor, "optional") for tensor in inputs] == [None, True, True]


def parameter(tensor: MetadataTensor, name: str) -> Any:
    return None if tensor.parameters is None else tensor.parameters.get(name)


def test_import_path_may_name_a_function() -> None:
    model = resolve_model_class(number, "number")
    assert model is not None
    assert issubclass(model, MLModel)
    assert resolve_model_class(3, "x") is None
    assert resolve_model_class(Strange, "x") is None
    with pytest.raises(InvalidSettings, match='parameter "a": it has no annotation'):
        resolve_model_class(unannotated, "x")
