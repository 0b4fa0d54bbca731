"""Reads messages, skips unreadable ones, and tracks the offsets to commit."""

import asyncio
import logging
from collections import deque
from gzip import BadGzipFile
from typing import Any

from aiokafka.errors import CorruptRecordException, KafkaError, UnsupportedCodecError

from .messages import truncate

logger = logging.getLogger("inferstream.kafka")

POLL = 1000
"""Timeout of a poll in milliseconds."""

OF_MESSAGES = (CorruptRecordException, UnsupportedCodecError, BadGzipFile)
"""Poll errors caused by a single message, although their base classes stand for cluster errors."""


class Offsets:
    """Tracks the offset up to which all messages of a partition are done. Messages finish in any order."""

    def __init__(self) -> None:
        self._open: deque[int] = deque()
        self._done: set[int] = set()
        self._next: int | None = None
        self.following: int | None = None
        """The offset after the last message that has started."""

    def begin(self, offset: int) -> None:
        self._open.append(offset)
        self.following = offset + 1

    def end(self, offset: int) -> None:
        self._done.add(offset)
        while self._open and self._open[0] in self._done:
            first = self._open.popleft()
            self._done.remove(first)
            self._next = first + 1

    def take(self) -> int | None:
        """Return the offset to commit, or None if it has not changed since the last call."""
        following, self._next = self._next, None
        return following


class Reader:
    """Polls a consumer.

    Messages that the client library cannot read are skipped, because they would block the topic.
    """

    def __init__(self, consumer: Any, offsets: dict[Any, Offsets], progress: asyncio.Event) -> None:
        self._consumer = consumer
        self._offsets = offsets
        self._progress = progress
        self._doubtful: deque[Any] = deque()
        """Partitions, one of which may contain an unreadable message."""
        self._unreadable: Any = None

    def forget(self) -> None:
        """Poll all partitions together again, after a rebalance."""
        self._doubtful.clear()
        self._unreadable = None

    async def poll(self, room: int) -> dict[Any, Any]:
        """Read up to `room` messages.

        After a failure of the client library, reads one message of one partition at a time.
        """
        try:
            if not self._doubtful:
                polled: dict[Any, Any] = await self._consumer.getmany(timeout_ms=POLL, max_records=room)
                return polled
            partition = self._doubtful[0]
            self._doubtful.rotate(-1)
            polled = await self._consumer.getmany(partition, timeout_ms=POLL, max_records=1)
        except Exception as error:  # An unreadable message can cause any exception.
            if isinstance(error, KafkaError | OSError) and not isinstance(error, OF_MESSAGES):
                raise
            if self._doubtful:
                await self._skip(partition, error)
            else:
                await self._rewind()
            return {}
        if partition == self._unreadable:  # The partition has passed its unreadable message.
            self.forget()
        elif not polled:
            self._doubtful.remove(partition)
        return polled

    async def _rewind(self) -> None:
        """Seek back, because the failed poll has lost the messages before the unreadable one."""
        for partition in self._consumer.assignment():
            offsets = self._offsets.get(partition)
            start = offsets.following if offsets else await self._consumer.committed(partition)
            self._consumer.seek(
                partition, await self._consumer.position(partition) if start is None else start
            )
            self._doubtful.append(partition)

    async def _skip(self, partition: Any, error: Exception) -> None:
        """Commit an unreadable message and continue after it."""
        offset = await self._consumer.position(partition)
        where, reason = f"{partition.topic}[{partition.partition}]:{offset}", truncate(str(error))
        logger.error("message %s is skipped: %s", where, reason)
        offsets = self._offsets.setdefault(partition, Offsets())
        offsets.begin(offset)
        offsets.end(offset)
        self._progress.set()
        self._unreadable = partition
        self._consumer.seek(partition, offset + 1)
