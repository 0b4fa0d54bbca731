"""Step functions."""
# names of dimensions are no names of types

import pytest

from inferstream import (
    App,
    Finished,
    ModelError,
)
from tests.unit.functions.serving import items


@pytest.mark.parametrize("is_async", [False, True])
async def test_steps_map_exceptions_and_read_their_arguments(is_async: bool) -> None:
    app, released = App(), []
    app.error(KeyError, status=418, message="teapot")

    def advance(states: list[dict[str, int]]) -> list[int | Finished | Exception]:
        found: list[int | Finished | Exception] = []
        for state in states:
            state["left"] -= 1
            ended = KeyError("x") if state["left"] == -9 else Finished()
            found.append(state["left"] if state["left"] >= 0 else ended)
        return found

    def state(n: int) -> dict[str, int]:
        if n == 99:
            raise KeyError("y")
        return {"left": n}

    if is_async:

        async def steps(states: list[dict[str, int]]) -> list[int | Finished | Exception]:
            return advance(states)

        async def admit(n: int) -> dict[str, int]:
            return state(n)

        app.steps(steps).admit(admit)
    else:
        app.steps("steps")(advance).admit(state)
    app["steps"].release(released.append)
    assert await items(app, "steps", n=2) == [1, 0]
    for n in (99, -8):
        with pytest.raises(ModelError, match="teapot"):
            await items(app, "steps", n=n)
    assert released == [{"left": -1}, {"left": -9}]
