"""Connects to a Kafka cluster, reconnects after failures, and serves messages."""

import asyncio
import logging
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from inferstream import Settings
from inferstream.errors import MissingExtra
from inferstream.ext.calls import Door, ServerModels

from .messages import DIALECT
from .settings import KafkaSettings

if TYPE_CHECKING:
    from .session import Session

logger = logging.getLogger("inferstream.kafka")

SHORTEST, LONGEST = 0.5, 30.0
"""Minimum and maximum pause between connection attempts in seconds. The pause doubles after each failure."""

EVERY = 30.0
"""Seconds between two log records of the same kind from the client library."""


class KafkaDoor(Door):
    """The Kafka endpoint."""

    name = DIALECT
    title = "Kafka"

    @classmethod
    def of(cls, dataplane: ServerModels, settings: Settings) -> Self | None:
        if not settings.section(KafkaSettings).kafka_enabled:
            return None
        try:
            import aiokafka  # noqa: F401  # reports a missing library at startup
        except ModuleNotFoundError as missing:
            raise MissingExtra("kafka_enabled", "kafka", missing) from None
        return cls(dataplane, settings)

    def __init__(self, dataplane: ServerModels, settings: Settings) -> None:
        self._dataplane = dataplane
        self._settings = settings
        self._session: Session | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._pause = SHORTEST

    def start(self) -> None:
        """Connect and serve until `stop` is called."""
        _limit_log("aiokafka")
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        # Imported lazily: most servers do not use Kafka, and the library may be missing.
        from aiokafka.errors import KafkaError

        while not self._stopping:
            try:
                await self._serve()
            # The library also raises other exceptions, and processing must continue.
            except Exception as error:
                servers, pause = self._settings.section(KafkaSettings).kafka_servers, self._pause
                logger.warning("Kafka at %s: %s; retrying in %g s", servers, _reason(error), pause)
                if not isinstance(error, KafkaError | OSError):
                    logger.info("unexpected error", exc_info=error)
                await asyncio.sleep(pause)
                self._pause = min(2 * pause, LONGEST)

    async def _serve(self) -> None:
        from .session import open_session

        kafka = self._settings.section(KafkaSettings)
        try:
            async with open_session(self._dataplane, self._settings) as self._session:
                logger.info("reading topic %s from %s", kafka.kafka_topic_input, kafka.kafka_servers)
                self._pause = SHORTEST
                await self._session.run()
        finally:
            self._session = None

    def pause(self) -> None:
        """Stop reading messages. Calls in progress continue."""
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
    """A log filter that passes one record of each kind per `EVERY` seconds.

    Without a cluster, aiokafka logs dozens per second.
    """

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
