"""One connection to a cluster: it reads messages, writes responses, and then commits the offsets."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener
from aiokafka import errors as kafka_errors
from aiokafka.errors import KafkaError

from inferstream import Settings
from inferstream.ext.calls import Admission, Operation, ServerModels, Tasks
from inferstream.ext.http import json_limits
from inferstream.plugins.kafka.settings import KafkaSettings
from inferstream.plugins.otel.tracer import build_tracer

from ..dataplane.cloudevents import build_events
from ..errors import Draining, InferstreamError, PayloadTooLarge
from ..types import InferenceRequest
from . import messages
from .messages import KafkaMessage, refusal, shortened
from .reading import Offsets, Reader

logger = logging.getLogger("inferstream.kafka")

_SYSTEM = {"messaging.system": "kafka"}

PARSE_IN_THREAD = 256 * 1024
"""Bytes of a message beyond which a thread parses it."""

AGAIN = 500
"""Milliseconds between the attempts of the client library."""

LONGEST_CALL = 3_600_000
"""Milliseconds between two polls of a consumer, after which its group excludes it."""

HANDOVER = 10.0
"""Seconds that calls may take to end before another server of the group gets their partition."""


TOO_LARGE = "The answer is too large for Kafka (setting max_body_bytes, and message.max.bytes of the broker)."

REFUSED = (
    kafka_errors.MessageSizeTooLargeError,
    kafka_errors.RecordListTooLargeError,
    kafka_errors.CorruptRecordException,
)
"""Errors of a producer that are about one message. Another attempt would end in the same way."""


class Session(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Answers each message at least once: it commits a message when the cluster has accepted the response.

    At most `kafka_max_in_flight` messages of `max_inflight_bytes` in all are in progress; the others wait.
    """

    def __init__(
        self,
        dataplane: ServerModels,
        settings: Settings,
        consumer: Any,
        producer: Any,
    ) -> None:
        self._tracer = dataplane.of(build_tracer)
        self._events = dataplane.of(build_events)
        self._dataplane = dataplane
        self._limits = json_limits(settings)
        kafka = settings.section(KafkaSettings)
        self._most = kafka.kafka_max_in_flight
        self._most_bytes = settings.max_inflight_bytes
        self._bytes = 0
        """Bytes of the messages in progress."""
        self._topic = kafka.kafka_topic_output
        self._consumer = consumer
        self._producer = producer
        self._running = Tasks()
        self._offsets: dict[Any, Offsets] = {}
        self._progress = asyncio.Event()
        self._reader = Reader(consumer, self._offsets, self._progress)
        self._failure: BaseException | None = None
        self._committing = asyncio.Lock()
        self.leaving = asyncio.Event()
        """Set when the session must take no more messages."""

    async def run(self) -> None:
        """Serve until `leaving` is set and all responses are sent. Raises the cluster's error."""
        reading = asyncio.create_task(self._read())
        committing = asyncio.create_task(self._commit_each())
        leaving = asyncio.create_task(self.leaving.wait())
        try:
            await asyncio.wait((reading, committing, leaving), return_when=asyncio.FIRST_COMPLETED)
            reading.cancel()
            if self.leaving.is_set():
                await self._running.all_ended()
                await self._commit()
        finally:
            for task in (reading, committing, leaving):
                task.cancel()
            self._running.cancel()
            ends = await asyncio.gather(reading, committing, return_exceptions=True)
        for end in (self._failure, *ends):
            if isinstance(end, Exception):
                raise end

    async def _read(self) -> None:
        while self._failure is None:
            while len(self._running) >= self._most:
                await self._running.one_ended()
            for partition, records in (await self._reader.poll(self._most - len(self._running))).items():
                offsets = self._offsets.setdefault(partition, Offsets())
                for record in records:
                    size = len(record.value or b"")
                    while self._running and self._bytes + size > self._most_bytes:
                        await self._running.one_ended()
                    self._bytes += size
                    offsets.begin(record.offset)
                    self._running.start(self._serve(record, offsets)).add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = self._failure or error
            self._progress.set()

    async def _serve(self, record: Any, offsets: Offsets) -> None:
        """Answer one message. Raises the cluster's error; the message is then read again after a restart."""
        span = None
        if self._tracer is not None:
            span = self._tracer.door(f"process {record.topic}", messages.headers_of(record), _SYSTEM)
        where = f"{record.topic}[{record.partition}]:{record.offset}"
        try:
            message = await self._response(record, where)
            if message is None:
                return
            await self._deliver(record, where, message)
        finally:
            self._bytes -= len(record.value or b"")
            if span is not None:
                span.end()
        offsets.end(record.offset)
        self._progress.set()

    async def _response(self, record: Any, where: str) -> KafkaMessage | None:
        """The response to one message, or the error; None for a message of the next server."""
        try:
            admission = await self._dataplane.when_loaded(
                lambda: messages.admission_of(record, self._dataplane.admit)
            )
            request = await self._read_request(record, admission)
            async with await admission.open(Operation.INFER, request) as reply:
                assert reply.first is not None
                message = messages.response_message(admission, reply.first, self._events)
                admission.sent(len(message.value))
                return message
        except InferstreamError as error:
            if isinstance(error, Draining) and self.leaving.is_set():
                logger.info("message %s remains for the next server", where)
                return None
            logger.warning("message %s: %s", where, shortened(error.message))
            return refusal(record, error)
        except Exception:
            logger.exception("message %s failed", where)
            return refusal(record, InferstreamError("The server failed; its log says why."))

    async def _read_request(self, record: Any, admission: Admission) -> InferenceRequest:
        if len(record.value or b"") < PARSE_IN_THREAD:
            return messages.request_of(record, self._limits, admission)
        return await asyncio.to_thread(messages.request_of, record, self._limits, admission)

    async def _deliver(self, record: Any, where: str, message: KafkaMessage) -> None:
        """Send a response, or else that it is too large. The log has one that the cluster does not take at all."""
        for small in (None, False, True):
            attempt = message if small is None else refusal(record, PayloadTooLarge(TOO_LARGE), small)
            try:
                await self._send(attempt)
                return
            except REFUSED as error:
                size = len(attempt.value)
                logger.warning("message %s: its response of %d bytes is refused: %s", where, size, error)
        logger.error("message %s has no response", where)

    async def _send(self, message: KafkaMessage) -> None:
        await self._producer.send_and_wait(
            self._topic, message.value, key=message.key, headers=message.headers
        )

    async def _commit_each(self) -> None:
        """Commit answered messages, one commit after the other, until the first failure."""
        while self._failure is None:
            await self._progress.wait()
            self._progress.clear()
            await self._commit()

    async def _commit(self) -> None:
        async with self._committing:
            taken = {partition: offsets.take() for partition, offsets in self._offsets.items()}
            assigned = self._consumer.assignment()  # one that is lost would fail the commit of all
            positions = {
                partition: offset
                for partition, offset in taken.items()
                if offset is not None and partition in assigned
            }
            if not positions:
                return
            try:
                await self._consumer.commit(positions)
            except (kafka_errors.CommitFailedError, kafka_errors.IllegalStateError) as error:
                # The group has given the partition to another server, which reads from the last commit on.
                logger.warning(
                    "offsets could not be committed, some messages may be answered twice: %s", error
                )

    async def on_partitions_revoked(self, revoked: Any) -> None:
        """Finish and commit the messages in progress before another server reads on from there."""
        try:
            async with asyncio.timeout(HANDOVER):
                await self._running.all_ended()
        except TimeoutError:
            logger.warning("a partition changes hands while its messages are being answered")
        await self._commit()
        self._offsets.clear()
        self._reader.forget()

    async def on_partitions_assigned(self, assigned: Any) -> None:
        """Required by aiokafka; there is nothing to prepare."""


@asynccontextmanager
async def connected(dataplane: ServerModels, settings: Settings) -> AsyncIterator[Session]:
    """A session over a consumer and a producer, which stop at its end. Raises the cluster's error."""
    kafka = settings.section(KafkaSettings)
    producer = AIOKafkaProducer(
        bootstrap_servers=kafka.kafka_servers,
        acks="all",
        max_request_size=settings.max_body_bytes,
        retry_backoff_ms=AGAIN,
    )
    consumer = AIOKafkaConsumer(
        bootstrap_servers=kafka.kafka_servers,
        group_id=kafka.kafka_group,
        auto_offset_reset=kafka.kafka_offset_reset,
        enable_auto_commit=False,
        retry_backoff_ms=AGAIN,
        max_poll_interval_ms=LONGEST_CALL,
        rebalance_timeout_ms=60_000,
    )
    try:
        await producer.start()
        session = Session(dataplane, settings, consumer, producer)
        consumer.subscribe([kafka.kafka_topic_input], listener=session)
        await consumer.start()
        yield session
    finally:
        for part in (consumer, producer):
            with suppress(KafkaError, OSError):
                await part.stop()
