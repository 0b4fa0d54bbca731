"""Types of arguments in stubs, declared again without the app's code."""

import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any, Literal, NamedTuple, NotRequired
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from inferstream import App, Depends, InferenceResponse, RequestContext
from inferstream.errors import ConnectionFailed
from inferstream.plugins.tools.stub.source import generate_stub


class Node(BaseModel):
    children: list["Node"] = []
    data: UUID | None = None


@dataclass
class Odd:
    made: list[int] = field(default_factory=lambda: [1])
    many: dict[str, "Odd"] = field(default_factory=dict)


class Partial(TypedDict):
    day: NotRequired[date]


class Pair(NamedTuple):
    left: Any
    right: int = 3


def executed(app: App) -> tuple[str, dict[str, Any]]:
    source = generate_stub(app, "here:app")
    module = sys.modules["stub_of_test"] = type(sys)("stub_of_test")
    exec(source, module.__dict__)
    return source, module.__dict__


async def test_unusual_types_and_names() -> None:
    app = App("my-shop")

    @app.model("class")
    def keyword(node: Node, odd: Odd = Odd()) -> Pair:  # noqa: B008
        raise NotImplementedError

    @app.model("2nd/model", version="1")
    def second(
        context: RequestContext,
        day: date = date(2024, 5, 6),
        way: Literal["a'b", 'c"d'] = "a'b",
        x: Annotated[Partial, Field(description="a day")] | None = None,
        y: npt.NDArray[np.bool_] | None = None,
    ) -> InferenceResponse:
        raise NotImplementedError

    @app.model("client")
    def named_as_an_attribute(a: int | None, b: int, extra: int = Depends(lambda: 1)) -> dict[str, Node]:
        """Ends with a "quote\""""
        raise NotImplementedError

    @app.model
    def bare(table: dict, rows: list | None = None) -> tuple[dict, list]:  # type: ignore[type-arg]
        raise NotImplementedError

    @app.model(version="1")
    def versioned(a: int) -> int:
        raise NotImplementedError

    @app.model("versioned", version="2")
    async def newer(a: AsyncIterator[int], b: tuple[int, ...] = (1,)) -> AsyncIterator[int]:
        yield 1

    source, names = executed(app)
    stub = names["AsyncMyShop"]("http://127.0.0.1:1", retries=0)
    node, odd = names["Node"](children=[names["Node"]()]), names["Odd"](made=[2])
    for call in (
        stub.class_(node),
        stub.class_(node, odd),
        stub._2nd_model(x={"day": date(2024, 5, 6)}),
        stub.client_(b=1),
    ):
        with pytest.raises(ConnectionFailed):
            await call
    with pytest.raises(ValueError, match=r'argument "odd": field "made\.0"'):
        await stub.class_(node, {"made": ["x"]})
    assert {"class_", "_2nd_model", "client_", "versioned_1", "versioned_2"} <= {*dir(stub)}
    assert "async def client_(self, *, a: int | None = None, b: int) -> dict[str, Node]:" in source
    assert '@remote("2nd/model", "1")' in source
    assert "table: dict[str, Any]," in source
    assert "rows: list[Any] | None = None," in source
    assert ") -> tuple[dict[str, Any], list[Any]]:" in source
    assert "odd: Odd = DEFAULT" in source
    assert "def versioned_2(self, a: AsyncIterable[int], b: tuple[int, ...] = (1,))" in source
    assert "day: datetime.date = datetime.date(2024, 5, 6)" in source
    assert "context" not in source
