"""Functions of frameworks."""

import inspect
from collections.abc import AsyncIterator, Iterator

from inferstream.ext.hosting import install_aliases
from inferstream.plugins.blazerpc.frameworks import convert_arguments

install_aliases()


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

    assert convert_arguments(plain, doubled, negated)(1, y=2) == -6
    assert await convert_arguments(awaited, doubled, negated)(1) == -2
    assert [*convert_arguments(generator, doubled, negated)(1)] == [-2]
    assert [item async for item in convert_arguments(stream, doubled, negated)(1)] == [-2]
    assert inspect.signature(convert_arguments(plain, doubled, negated)) == inspect.signature(plain)
