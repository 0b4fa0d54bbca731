"""The responses of what functions return and yield."""
# names of dimensions are no names of types

from collections.abc import AsyncIterator
from typing import Any, NamedTuple, Union

import pytest

from inferstream import (
    App,
    InferenceResponse,
    Token,
)
from inferstream.errors import InferenceFailed
from tests.unit.functions.serving import answer, items


class Both(NamedTuple):
    label: str
    score: float | None


async def test_every_way_to_return_a_value() -> None:
    app = App()

    @app.model
    def pair(a: int) -> tuple[int, str]:
        return a, str(a)

    @app.model
    async def both(score: float | None = None) -> Both:
        return Both("x", score)

    @app.model
    def nothing() -> None:
        return None

    @app.model
    def maybe(a: int) -> int | None:
        return a or None

    @app.model
    def free(a: int) -> InferenceResponse:
        return InferenceResponse(model_name="free", outputs=[]) if a else None  # type: ignore[return-value]

    assert await answer(app, "free", a=1) == {}
    with pytest.raises(InferenceFailed, match="it is no InferenceResponse"):
        await answer(app, "free", a=0)
    assert await answer(app, "pair", a=3) == {"output_0": 3, "output_1": "3"}
    assert await answer(app, "both", score=0.5) == {"label": "x", "score": 0.5}
    assert await answer(app, "both") == {"label": "x"}
    assert await answer(app, "nothing") == {}
    assert await answer(app, "maybe", a=2) == 2
    assert await answer(app, "maybe", a=0) == {}


async def test_stream_of_tokens_and_strings() -> None:
    app = App()

    @app.model
    async def generate(n: int) -> AsyncIterator[Token | str]:
        yield Token("a", 7)
        yield "b"

    @app.model
    def maybe(n: int) -> Union[str, Token, None]:  # noqa: UP007  # as written before Python 3.10
        return [Token("c", 7), "d", None][n]

    assert await items(app, "generate", n=1) == ["a", "b"]
    assert [await answer(app, "maybe", n=n) for n in (0, 1, 2)] == ["c", "d", {}]


@pytest.mark.parametrize("hint", [int, str, bytes, bool])
async def test_value_of_wrong_type_is_a_model_error(hint: Any) -> None:
    app = App()

    def wrong() -> Any:
        return object()

    wrong.__annotations__["return"] = hint
    app.model(wrong)
    with pytest.raises(
        InferenceFailed, match=f"returned a value of type object where its annotation says {hint.__name__}"
    ):
        await answer(app, "wrong")


async def test_oversized_integer_result_is_an_error() -> None:
    app = App()

    @app.model
    def large() -> int:
        return 2**63

    with pytest.raises(
        InferenceFailed, match=r"a value of type int that does not fit: .* is out of range for INT64"
    ):
        await answer(app, "large")
