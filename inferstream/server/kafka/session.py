"""One connection to a cluster: messages in, answers out, and only then the offsets committed."""

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from aiokafka import ConsumerRebalanceListener
from aiokafka.errors import CommitFailedError, IllegalStateError, MessageSizeTooLargeError

from ...dataplane.dataplane import DataPlane
from ...errors import Draining, InferstreamError, PayloadTooLarge
from ...settings import Settings
from ...types import Headers
from .messages import KafkaMessage, call_of, refusal, response_message
from .offsets import Offsets

if TYPE_CHECKING:
    from ...telemetry.tracing import Tracer

logger = logging.getLogger("inferstream.kafka")

_SYSTEM = {"messaging.system": "kafka"}

POLL = 1000
"""Milliseconds that one look for messages waits."""

HANDOVER = 10.0
"""Seconds that calls may take to end when another server of the group takes over their partition."""


class Session(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Answers each message once at least: a message is committed when its answer has been taken by the cluster.

    At most `kafka_max_in_flight` messages are worked on; the others stay where they are.
    """

    def __init__(
        self,
        dataplane: DataPlane,
        settings: Settings,
        consumer: Any,
        producer: Any,
        tracing: "Tracer | None",
    ) -> None:
        self._tracing = tracing
        self._dataplane = dataplane
        self._limit = settings.max_body_bytes
        self._most = settings.kafka_max_in_flight
        self._topic = settings.kafka_topic_output
        self._consumer = consumer
        self._producer = producer
        self._running: set[asyncio.Task[None]] = set()
        self._offsets: dict[Any, Offsets] = {}
        self._failure: BaseException | None = None
        self._progress = asyncio.Event()
        self._committing = asyncio.Lock()
        self.leaving = asyncio.Event()
        """Set when no more messages are to be taken."""

    async def run(self) -> None:
        """Serve until `leaving` is set and all is answered. Raises what the cluster fails with."""
        reading = asyncio.create_task(self._read())
        committing = asyncio.create_task(self._commit_each())
        leaving = asyncio.create_task(self.leaving.wait())
        try:
            await asyncio.wait((reading, committing, leaving), return_when=asyncio.FIRST_COMPLETED)
            reading.cancel()
            if self.leaving.is_set():
                await self._idle()
                await self._commit()
        finally:
            for task in (reading, committing, leaving, *self._running):
                task.cancel()
            ends = await asyncio.gather(reading, committing, return_exceptions=True)
        for end in (self._failure, *ends):
            if isinstance(end, Exception):
                raise end

    async def _read(self) -> None:
        while self._failure is None:
            while len(self._running) >= self._most:
                await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
            found = await self._consumer.getmany(timeout_ms=POLL, max_records=self._most - len(self._running))
            for partition, records in found.items():
                offsets = self._offsets.setdefault(partition, Offsets())
                for record in records:
                    offsets.begin(record.offset)
                    task = asyncio.create_task(self._serve(record, offsets))
                    self._running.add(task)
                    task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = self._failure or error
            self._progress.set()

    async def _serve(self, record: Any, offsets: Offsets) -> None:
        """Answer one message. Raises what the cluster refuses the answer with; it stays to be answered again."""
        if self._tracing is None:
            await self._respond(record, offsets)
            return
        span = self._tracing.door(f"process {record.topic}", Headers(record.headers), _SYSTEM)
        try:
            await self._respond(record, offsets)
        finally:
            span.end()

    async def _respond(self, record: Any, offsets: Offsets) -> None:
        where = f"{record.topic}[{record.partition}]:{record.offset}"
        try:
            admission, call = call_of(record, self._limit, self._dataplane.admit)
            async with await admission.open(call) as reply:
                assert reply.first is not None
                message = response_message(call, reply.first, self._dataplane.events)
        except InferstreamError as error:
            if isinstance(error, Draining) and self.leaving.is_set():
                logger.info("message %s is left for whoever serves next", where)
                return
            logger.warning("message %s: %s", where, error.message)
            message = refusal(record, error)
        except Exception:
            logger.exception("message %s failed", where)
            message = refusal(record, InferstreamError("The server failed; its log says why."))
        try:
            await self._send(message)
        except MessageSizeTooLargeError:
            logger.warning(
                "message %s: its answer of %d bytes is too large for Kafka", where, len(message.value)
            )
            await self._send(refusal(record, PayloadTooLarge("The answer is too large for Kafka.")))
        offsets.end(record.offset)
        self._progress.set()

    async def _send(self, message: KafkaMessage) -> None:
        await self._producer.send_and_wait(
            self._topic, message.value, key=message.key, headers=message.headers
        )

    async def _commit_each(self) -> None:
        """Commit what has been answered, as often as the cluster takes it. Ends with the first failed answer."""
        while self._failure is None:
            await self._progress.wait()
            self._progress.clear()
            await self._commit()

    async def _commit(self) -> None:
        async with self._committing:
            await self._commit_all()

    async def _commit_all(self) -> None:
        taken = {partition: offsets.take() for partition, offsets in self._offsets.items()}
        found = {partition: offset for partition, offset in taken.items() if offset is not None}
        if not found:
            return
        try:
            await self._consumer.commit(found)
        except (CommitFailedError, IllegalStateError) as error:
            # The group has given the partition to another server, which answers from its last commit on.
            logger.warning("offsets could not be committed, some messages may be answered twice: %s", error)

    async def _idle(self) -> None:
        while self._running:
            await asyncio.wait(self._running)

    async def on_partitions_revoked(self, revoked: Any) -> None:
        """Finish and commit what is being answered, before another server begins where this one ends."""
        try:
            async with asyncio.timeout(HANDOVER):
                await self._idle()
        except TimeoutError:
            logger.warning("a partition changes hands while its messages are being answered")
        await self._commit()
        self._offsets.clear()

    async def on_partitions_assigned(self, assigned: Any) -> None:
        """Nothing to prepare."""
