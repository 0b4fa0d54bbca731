"""Functions of frameworks."""

import inspect
from collections.abc import AsyncIterator, Iterator

from inferstream import compat
from inferstream.compat.blazerpc.frameworks import converting

compat.install()


async def test_framework_functions_of_every_kind() -> None:
    def plain(x: int, y: int) -> int:
        return x + y

    async def awaited(x: int) -> int:
        return x

    def generator(x: int) -> Iterator[int]:
        yield x

    async def stream(x: int) -> AsyncIterator[int]:
        yield x

    def doubled(value: int) -> int:
        return value * 2

    def negated(value: int) -> int:
        return -value

    assert converting(plain, doubled, negated)(1, y=2) == -6
    assert await converting(awaited, doubled, negated)(1) == -2
    assert [*converting(generator, doubled, negated)(1)] == [-2]
    assert [item async for item in converting(stream, doubled, negated)(1)] == [-2]
    assert inspect.signature(converting(plain, doubled, negated)) == inspect.signature(plain)
