"""Batch inference: a file of requests through a server, into a file of answers."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ..errors import CallFailed, InvalidRequest
from ..types import InferenceRequest, InferenceResponse
from .merging import groups, merged, split
from .request_file import RequestFile, RequestLine, request_in
from .results import Results
from .transport import Transport

logger = logging.getLogger("inferstream.clients")

FIRST_PAUSE = 0.25
LONGEST_PAUSE = 15.0
"""Seconds. The pause between two attempts doubles from the first to the longest."""

NumberedRequest = tuple[int, InferenceRequest]
"""A request and the number of its line."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rate:
    """How hard a run may press; times are seconds."""

    workers: int = 10
    retries: int = 3
    interval: float = 0.0
    jitter: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)


class BatchRun:
    """One run. Whatever ends it, every answer that has arrived is in the results."""

    def __init__(
        self,
        transport: Transport,
        file: RequestFile,
        results: Results,
        pace: Rate,
        advanced: Callable[[], None] = lambda: None,
    ) -> None:
        self._transport = transport
        self._results = results
        self._pace = pace
        self._advanced = advanced
        # Workers take from it one after the other: what is in memory is what is being asked.
        self._batches: Iterator[list[RequestLine]] = file.batches()
        self._merges = True
        self._heard = 0
        self.unreachable = ""
        """Why nobody answers any more; empty while somebody does."""

    async def run(self) -> None:
        """Ask for every line; returns early, with `unreachable`, when nobody answers any more."""
        async with asyncio.TaskGroup() as workers:
            for _ in range(self._pace.workers):
                workers.create_task(self._take_batches())

    async def _take_batches(self) -> None:
        while not self.unreachable and (batch := next(self._batches, None)) is not None:
            await self._send(batch)
            self._advanced()
            pause = self._pace.interval + random.uniform(0, self._pace.jitter)
            if pause:
                await asyncio.sleep(pause)

    async def _send(self, batch: Sequence[RequestLine]) -> None:
        asked: list[NumberedRequest] = []
        for line in batch:
            try:
                asked.append((line.number, request_in(line)))
            except InvalidRequest as error:
                self._fail(line.number, error.message)
        if not self._merges:
            await self._one_by_one(asked)
            return
        for group in groups([request for _, request in asked]):
            await self._together([asked[position] for position in group])

    async def _together(self, asked: Sequence[NumberedRequest]) -> None:
        """One call for requests that are alike; singly where the server or its answer does not allow it."""
        if len(asked) == 1:
            await self._one_by_one(asked)
            return
        requests = [request for _, request in asked]
        request = merged(requests)
        try:
            response = await self._call(request)
        except CallFailed as error:
            if error.retryable:
                for index, _ in asked:
                    self._fail(index, error.message)
                return
            logger.info("a merged call failed, now one by one: %s", error.message)
            await self._one_by_one(asked)
            return
        try:
            parts = split(response, requests)
        except CallFailed as error:
            logger.warning("the model's answers cannot be split, so no lines are merged: %s", error.message)
            self._merges = False
            await self._one_by_one(asked)
            return
        for (index, _), part in zip(asked, parts, strict=True):
            self._results.succeed(index, response.id or str(request.id), part)

    async def _one_by_one(self, asked: Sequence[NumberedRequest]) -> None:
        for index, request in asked:
            try:
                response = await self._call(request)
            except CallFailed as error:
                self._fail(index, error.message)
            else:
                self._results.succeed(index, response.id or str(request.id), response)

    async def _call(self, request: InferenceRequest) -> InferenceResponse:
        heard = self._heard
        identity = str(request.id)
        headers = {"seldon-puid": identity, "x-request-id": identity, **self._pace.headers}
        logger.debug("asking %s", identity)
        try:
            response = await retried(lambda: self._transport.infer(request, headers), self._pace.retries)
        except CallFailed as error:
            if not error.unreachable:
                self._heard += 1
            elif heard == self._heard:
                # Nobody was heard during all these attempts: the rest of the file would fail the same way.
                self.unreachable = error.message
            raise
        self._heard += 1
        return response

    def _fail(self, index: int, message: str) -> None:
        logger.info("line %d: %s", index, message)
        self._results.fail(index, message)


async def retried(call: Callable[[], Awaitable[T]], retries: int) -> T:
    """The result of `call`. A retryable CallFailed repeats the call up to `retries` times.

    Raises the last CallFailed.
    """
    for made in range(retries + 1):
        try:
            return await call()
        except CallFailed as error:
            if made == retries or not error.retryable:
                raise
            pause = pause_after(made, error.retry_after)
            logger.info("again in %.2f s (%d of %d): %s", pause, made + 1, retries, error.message)
        await asyncio.sleep(pause)
    raise AssertionError("not reached")


def pause_after(made: int, requested: float | None) -> float:
    """Seconds to wait after `made` + 1 failures, at least those that the server has requested.

    The pause is random, so that clients do not repeat their calls at the same time.
    """
    pause = min(FIRST_PAUSE * 2.0 ** min(made, 16), LONGEST_PAUSE) * random.uniform(0.5, 1.0)
    return pause if requested is None else max(pause, requested)
