"""Connects to a Kafka cluster, again after each failure, and serves its messages."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError

from ...dataplane.dataplane import DataPlane
from ...settings import Settings
from .session import Session

if TYPE_CHECKING:
    from ...telemetry.tracing import Tracer

logger = logging.getLogger("inferstream.kafka")

SHORTEST, LONGEST = 0.5, 30.0
"""Seconds between two attempts to connect; the pause doubles up to the limit."""

AGAIN = 500
"""Milliseconds between the attempts of the client library."""

LONGEST_CALL = 3_600_000
"""Milliseconds between two polls of a consumer, after which its group excludes it."""


EVERY = 30.0
"""Seconds between two log records of the client library of the same kind."""


class KafkaDoor:
    """The Kafka endpoint."""

    def __init__(self, dataplane: DataPlane, settings: Settings, tracing: "Tracer | None") -> None:
        self._tracing = tracing
        self._dataplane = dataplane
        self._settings = settings
        self._session: Session | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    def start(self) -> None:
        """Connect and serve until `stop`."""
        _limit_log("aiokafka")
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        pause = SHORTEST
        while not self._stopping:
            try:
                async with self._connected() as session:
                    logger.info(
                        "reading %s of %s", self._settings.kafka_topic_input, self._settings.kafka_servers
                    )
                    pause = SHORTEST
                    await session.run()
            except (KafkaError, OSError, TimeoutError) as error:
                logger.warning(
                    "Kafka at %s: %s; again in %g s", self._settings.kafka_servers, _reason(error), pause
                )
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Session]:
        settings = self._settings
        producer = AIOKafkaProducer(
            bootstrap_servers=settings.kafka_servers,
            acks="all",
            max_request_size=settings.max_body_bytes,
            retry_backoff_ms=AGAIN,
        )
        consumer = AIOKafkaConsumer(
            bootstrap_servers=settings.kafka_servers,
            group_id=settings.kafka_group,
            auto_offset_reset=settings.kafka_offset_reset,
            enable_auto_commit=False,
            retry_backoff_ms=AGAIN,
            max_poll_interval_ms=LONGEST_CALL,
            rebalance_timeout_ms=60_000,
        )
        try:
            await producer.start()
            session = self._session = Session(self._dataplane, settings, consumer, producer, self._tracing)
            consumer.subscribe([settings.kafka_topic_input], listener=session)
            await consumer.start()
            yield session
        finally:
            self._session = None
            for part in (consumer, producer):
                with suppress(KafkaError, OSError):
                    await part.stop()

    def pause(self) -> None:
        """Take no more messages; calls in progress continue."""
        self._stopping = True
        if self._session is not None:
            self._session.leaving.set()
        elif self._task is not None:
            self._task.cancel()

    async def stop(self, grace: float) -> None:
        """Send the last responses and commit their offsets, within `grace` seconds each."""
        if self._task is None:
            return
        self.pause()
        await asyncio.wait([self._task], timeout=grace)
        self._task.cancel()
        await asyncio.wait([self._task], timeout=grace)


def _reason(error: Any) -> str:
    return " ".join(str(error).split()) or type(error).__name__


class RateLimit(logging.Filter):
    """Passes one record of each kind in `EVERY` seconds; aiokafka logs dozens a second without a cluster."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = f"{record.name} {record.msg}"
        now = monotonic()
        if now - self._passed.get(kind, -EVERY) < EVERY:
            return False
        self._passed[kind] = now
        return True


def _limit_log(library: str) -> None:
    limit = RateLimit()
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] == library:
            logging.getLogger(name).addFilter(limit)
