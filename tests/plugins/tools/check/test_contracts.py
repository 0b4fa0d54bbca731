"""The limit of memory that calls may keep, at a few calls and at many."""

from types import SimpleNamespace
from typing import Any

import pytest

from inferstream.plugins.tools.check.contracts import CheckLimits, Fault, check_memory


class Keeping:
    """A model that keeps bytes of each of its first calls, as caches do, or of every call."""

    def __init__(self, size: int, first: int | None = None) -> None:
        self._size = size
        self._left = first
        self._kept: list[bytes] = []

    async def infer(self, request: Any) -> None:
        if self._left != 0:
            self._kept.append(bytes(self._size))
        if self._left:
            self._left -= 1


async def check(model: Any, calls: int) -> None:
    limits = CheckLimits(calls=calls, seconds=600)  # a busy machine makes as many calls
    await check_memory(model, [SimpleNamespace()], limits)  # type: ignore[list-item]


@pytest.mark.parametrize("calls", [10, 1000])
async def test_filling_caches_are_not_a_fault(calls: int) -> None:
    warm_up = 11 + calls // 5
    await check(Keeping(800, warm_up + 5), calls)


@pytest.mark.parametrize(("size", "calls"), [(4000, 10), (400, 1000)])
async def test_growth_with_each_call_is_a_fault(size: int, calls: int) -> None:
    with pytest.raises(Fault, match=r"each call keeps .* bytes, most of them from .*test_contracts\.py:"):
        await check(Keeping(size), calls)
