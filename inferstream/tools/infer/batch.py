"""Batch inference: sends a file of requests to a server and writes a file of responses."""

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from inferstream.ext.hosting import V2Client
from inferstream.ext.telemetry import get_logger

from ...errors import CallFailed, InvalidRequest
from ...types import InferenceRequest, InferenceResponse
from .merging import groups, merged, split
from .request_file import RequestFile, RequestLine, request_in
from .results import ResultFile

logger = get_logger("clients")

NumberedRequest = tuple[int, InferenceRequest]
"""A request and the number of its line."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Parallel calls, retries and pauses of a run, in seconds, and the headers of each call."""

    workers: int = 10
    retries: int = 3
    interval: float = 0.0
    jitter: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(eq=False)
class BatchRun:
    """One run. The results have every response that arrived before its end."""

    client: V2Client
    model: str
    file: RequestFile
    results: ResultFile
    pace: Rate
    advanced: Callable[[], None] = lambda: None
    unreachable: str = ""
    """The reason why the server is unreachable; empty while it is reachable."""
    _merges: bool = True
    _contacts: int = 0

    def __post_init__(self) -> None:
        # Workers share this iterator, so only lines of calls in progress are in memory.
        self._batches: Iterator[list[RequestLine]] = self.file.batches()

    async def run(self) -> None:
        """Send every line. Returns early, with `unreachable` set, when the server is unreachable."""
        async with asyncio.TaskGroup() as workers:
            for _ in range(self.pace.workers):
                workers.create_task(self._take_batches())

    async def _take_batches(self) -> None:
        while not self.unreachable and (batch := next(self._batches, None)) is not None:
            await self._send(batch)
            self.advanced()
            pause = self.pace.interval + random.uniform(0, self.pace.jitter)
            if pause:
                await asyncio.sleep(pause)

    async def _send(self, batch: Sequence[RequestLine]) -> None:
        sent: list[NumberedRequest] = []
        for line in batch:
            try:
                sent.append((line.number, request_in(line)))
            except InvalidRequest as error:
                self._fail(line.number, error.message)
        if not self._merges:
            await self._one_by_one(sent)
            return
        for group in groups([request for _, request in sent]):
            await self._together([sent[position] for position in group])

    async def _together(self, sent: Sequence[NumberedRequest]) -> None:
        """Make one call for requests of one group; one call each if the server or its response does not allow it."""
        if len(sent) == 1:
            await self._one_by_one(sent)
            return
        requests = [request for _, request in sent]
        request = merged(requests)
        try:
            response = await self._call(request)
        except CallFailed as error:
            if error.retryable:
                for index, _ in sent:
                    self._fail(index, str(error))
                return
            logger.info("a merged call failed, now one by one: %s", error)
            await self._one_by_one(sent)
            return
        try:
            parts = split(response, requests)
        except CallFailed as error:
            logger.warning("the model's answers cannot be split, so no lines are merged: %s", error.message)
            self._merges = False
            await self._one_by_one(sent)
            return
        for (index, _), part in zip(sent, parts, strict=True):
            self.results.succeed(index, response.id or str(request.id), part)

    async def _one_by_one(self, sent: Sequence[NumberedRequest]) -> None:
        for index, request in sent:
            try:
                response = await self._call(request)
            except CallFailed as error:
                self._fail(index, str(error))
            else:
                self.results.succeed(index, response.id or str(request.id), response)

    async def _call(self, request: InferenceRequest) -> InferenceResponse:
        contacts = self._contacts
        identity = str(request.id)
        headers = {"seldon-puid": identity, "x-request-id": identity, **self.pace.headers}
        logger.debug("asking %s", identity)
        try:
            response = await self.client.infer(self.model, request, headers, retries=self.pace.retries)
        except CallFailed as error:
            if not error.unreachable:
                self._contacts += 1
            elif contacts == self._contacts:
                # No call reached the server during all these attempts: the rest of the file would fail too.
                self.unreachable = str(error)
            raise
        self._contacts += 1
        return response

    def _fail(self, index: int, message: str) -> None:
        logger.info("line %d: %s", index, message)
        self.results.fail(index, message)
