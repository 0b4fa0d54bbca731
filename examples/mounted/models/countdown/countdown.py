"""Counts down, one number at a time."""

import asyncio
from collections.abc import AsyncIterator

from inferstream import MLModel, decode_args


class Countdown(MLModel):
    @decode_args
    async def predict_stream(self, start: list[str]) -> AsyncIterator[list[str]]:
        """Count down from a number.

        >>> countdown(start=["3"])
        """
        for number in range(int(start[0]), -1, -1):
            yield [str(number)]
            await asyncio.sleep(0.1)
