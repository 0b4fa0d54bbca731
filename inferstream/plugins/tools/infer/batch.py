"""Batch inference: sends the requests of a file to a server and writes the responses to a file."""

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from inferstream.errors import CallFailed, InvalidRequest
from inferstream.ext.hosting import V2Client
from inferstream.ext.telemetry import get_logger
from inferstream.types import InferenceRequest, InferenceResponse

from .merging import group_requests, merge_requests, split_response
from .request_file import RequestFile, RequestLine, parse_request
from .results import ResultFile

logger = get_logger("clients")

NumberedRequest = tuple[int, InferenceRequest]
"""A line number and the request on that line."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Concurrency, retries, pauses in seconds, and headers of a run."""

    workers: int = 10
    retries: int = 3
    interval: float = 0.0
    jitter: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(eq=False)
class BatchRun:
    """A batch inference run. Each response is written to the results as soon as it arrives."""

    client: V2Client
    model: str
    file: RequestFile
    results: ResultFile
    pace: Rate
    advanced: Callable[[], None] = lambda: None
    unreachable: str = ""
    """The reason why the server is unreachable. Empty while it is reachable."""
    _merges: bool = True
    _contacts: int = 0

    def __post_init__(self) -> None:
        # Workers share this iterator, so only the lines of calls in progress are in memory.
        self._batches: Iterator[list[RequestLine]] = self.file.batches()

    async def run(self) -> None:
        """Send the request of each line. Returns early if the server is `unreachable`."""
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
                sent.append((line.number, parse_request(line)))
            except InvalidRequest as error:
                self._fail(line.number, error.message)
        if not self._merges:
            await self._send_separately(sent)
            return
        for group in group_requests([request for _, request in sent]):
            await self._send_batch([sent[position] for position in group])

    async def _send_batch(self, sent: Sequence[NumberedRequest]) -> None:
        """Send the requests of one group in a single call.

        Sends them separately if the server rejects the merged request or its response cannot be split.
        """
        if len(sent) == 1:
            await self._send_separately(sent)
            return
        requests = [request for _, request in sent]
        request = merge_requests(requests)
        try:
            response = await self._call(request)
        except CallFailed as error:
            if error.retryable:
                for index, _ in sent:
                    self._fail(index, str(error))
                return
            logger.info("a merged call failed, now one by one: %s", error)
            await self._send_separately(sent)
            return
        try:
            parts = split_response(response, requests)
        except CallFailed as error:
            logger.warning("the model's answers cannot be split, so no lines are merged: %s", error.message)
            self._merges = False
            await self._send_separately(sent)
            return
        for (index, _), part in zip(sent, parts, strict=True):
            self.results.add_response(index, response.id or str(request.id), part)

    async def _send_separately(self, sent: Sequence[NumberedRequest]) -> None:
        for index, request in sent:
            try:
                response = await self._call(request)
            except CallFailed as error:
                self._fail(index, str(error))
            else:
                self.results.add_response(index, response.id or str(request.id), response)

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
                # No call reached the server during all these attempts, so the rest of the file would fail as
                # well.
                self.unreachable = str(error)
            raise
        self._contacts += 1
        return response

    def _fail(self, index: int, message: str) -> None:
        logger.info("line %d: %s", index, message)
        self.results.fail(index, message)
