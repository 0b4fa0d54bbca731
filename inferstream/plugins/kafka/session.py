"""A connection to a cluster that reads messages, sends responses and then commits offsets."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener
from aiokafka import errors as kafka_errors
from aiokafka.errors import KafkaError

from inferstream import Settings
from inferstream.errors import Draining, InferstreamError, PayloadTooLarge
from inferstream.ext.calls import Admission, Operation, ServerModels, Tasks
from inferstream.ext.http import json_limits
from inferstream.plugins.cloudevents.events import build_events
from inferstream.plugins.otel.tracer import build_tracer
from inferstream.types import InferenceRequest

from . import messages
from .messages import KafkaMessage, build_error_message, truncate
from .reading import Offsets, Reader
from .settings import KafkaSettings

logger = logging.getLogger("inferstream.kafka")

_SYSTEM = {"messaging.system": "kafka"}

PARSE_IN_THREAD = 256 * 1024
"""Bytes from which a message is parsed in a thread."""

AGAIN = 500
"""Milliseconds between retries of the client library."""

MAX_CALL_MILLISECONDS = 3_600_000
"""Milliseconds between two polls after which the group excludes the consumer."""

HANDOVER = 10.0
"""Seconds for calls in progress before a partition is handed over to another server."""


TOO_LARGE = "The answer is too large for Kafka (setting max_body_bytes, and message.max.bytes of the broker)."

REFUSED = (
    kafka_errors.MessageSizeTooLargeError,
    kafka_errors.RecordListTooLargeError,
    kafka_errors.CorruptRecordException,
)
"""Producer errors that concern a single message and that a retry would not fix."""


class Session(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Serves each message at least once: a message is committed after the cluster has accepted its response.

    At most `kafka_max_in_flight` messages with a total of `max_inflight_bytes` are in progress.
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
        """Set to stop reading messages."""

    async def run(self) -> None:
        """Serve until `leaving` is set and all responses are sent. Raises errors of the cluster."""
        reading = asyncio.create_task(self._read())
        committing = asyncio.create_task(self._commit_each())
        leaving = asyncio.create_task(self.leaving.wait())
        try:
            await asyncio.wait((reading, committing, leaving), return_when=asyncio.FIRST_COMPLETED)
            reading.cancel()
            if self.leaving.is_set():
                await self._running.wait_for_all()
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
                await self._running.wait_for_one()
            for partition, records in (await self._reader.poll(self._most - len(self._running))).items():
                offsets = self._offsets.setdefault(partition, Offsets())
                for record in records:
                    size = len(record.value or b"")
                    while self._running and self._bytes + size > self._most_bytes:
                        await self._running.wait_for_one()
                    self._bytes += size
                    offsets.begin(record.offset)
                    self._running.start(self._serve(record, offsets)).add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = self._failure or error
            self._progress.set()

    async def _serve(self, record: Any, offsets: Offsets) -> None:
        """Serve one message. Raises errors of the cluster, after which the message is read again."""
        span = None
        if self._tracer is not None:
            span = self._tracer.start_request_span(
                f"process {record.topic}", messages.decode_headers(record), _SYSTEM
            )
        where = f"{record.topic}[{record.partition}]:{record.offset}"
        try:
            message = await self._build_response(record, where)
            if message is None:
                return
            await self._deliver(record, where, message)
        finally:
            self._bytes -= len(record.value or b"")
            if span is not None:
                span.end()
        offsets.end(record.offset)
        self._progress.set()

    async def _build_response(self, record: Any, where: str) -> KafkaMessage | None:
        """Return the response or error for a message.

        Returns None if the message is left for another server.
        """
        try:
            admission = await self._dataplane.when_loaded(
                lambda: messages.admit_record(record, self._dataplane.admit)
            )
            request = await self._read_request(record, admission)
            async with await admission.open(Operation.INFER, request) as reply:
                assert reply.first is not None
                message = messages.build_response(admission, reply.first, self._events)
                admission.count_response(len(message.value))
                return message
        except InferstreamError as error:
            if isinstance(error, Draining) and self.leaving.is_set():
                logger.info("message %s is left for another server: this one is stopping", where)
                return None
            logger.warning("message %s: %s", where, truncate(error.message))
            return build_error_message(record, error)
        except Exception:
            logger.exception("message %s failed", where)
            return build_error_message(record, InferstreamError("The server failed; its log says why."))

    async def _read_request(self, record: Any, admission: Admission) -> InferenceRequest:
        if len(record.value or b"") < PARSE_IN_THREAD:
            return messages.parse_request(record, self._limits, admission)
        return await asyncio.to_thread(messages.parse_request, record, self._limits, admission)

    async def _deliver(self, record: Any, where: str, message: KafkaMessage) -> None:
        """Send a response, or an error if it is too large. If the cluster rejects both, this is logged."""
        for small in (None, False, True):
            attempt = (
                message if small is None else build_error_message(record, PayloadTooLarge(TOO_LARGE), small)
            )
            try:
                await self._send(attempt)
                return
            except REFUSED as error:
                size = len(attempt.value)
                logger.warning("message %s: Kafka refused the response of %d bytes: %s", where, size, error)
        logger.error("message %s: no response could be sent", where)

    async def _send(self, message: KafkaMessage) -> None:
        await self._producer.send_and_wait(
            self._topic, message.value, key=message.key, headers=message.headers
        )

    async def _commit_each(self) -> None:
        """Commit completed messages, one commit at a time, until a failure."""
        while self._failure is None:
            await self._progress.wait()
            self._progress.clear()
            await self._commit()

    async def _commit(self) -> None:
        async with self._committing:
            taken = {partition: offsets.take() for partition, offsets in self._offsets.items()}
            assigned = self._consumer.assignment()  # A lost partition would make the whole commit fail.
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
                # The partition was assigned to another server, which continues from the last commit.
                logger.warning("offset commit failed, some messages may be processed twice: %s", error)

    async def on_partitions_revoked(self, revoked: Any) -> None:
        """Finish and commit the messages in progress before another server takes over the partitions."""
        try:
            async with asyncio.timeout(HANDOVER):
                await self._running.wait_for_all()
        except TimeoutError:
            logger.warning("partition revoked while its messages are in progress")
        await self._commit()
        self._offsets.clear()
        self._reader.forget()

    async def on_partitions_assigned(self, assigned: Any) -> None:
        """Do nothing. Required by aiokafka."""


@asynccontextmanager
async def open_session(dataplane: ServerModels, settings: Settings) -> AsyncIterator[Session]:
    """Create a session with a consumer and a producer, and stop them after the block.

    Raises errors of the cluster.
    """
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
        max_poll_interval_ms=MAX_CALL_MILLISECONDS,
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
