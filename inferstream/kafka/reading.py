"""Reads messages, past those that the client library cannot parse, and keeps the offsets to commit."""

import asyncio
import logging
from collections import deque
from gzip import BadGzipFile
from typing import Any

from aiokafka.errors import CorruptRecordException, KafkaError, UnsupportedCodecError

from .messages import shortened

logger = logging.getLogger("inferstream.kafka")

POLL = 1000
"""Milliseconds that one poll for messages waits."""

OF_MESSAGES = (CorruptRecordException, UnsupportedCodecError, BadGzipFile)
"""Errors of a poll that are about a message, although their bases are about the cluster."""


class Offsets:
    """The offset of one partition up to which all messages are done, in whatever order they end."""

    def __init__(self) -> None:
        self._open: deque[int] = deque()
        self._done: set[int] = set()
        self._next: int | None = None
        self.following: int | None = None
        """The offset behind the last message that has begun."""

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
        """The offset at which a restart should read, or None if it has not changed since the last call."""
        following, self._next = self._next, None
        return following


class Reader:
    """Polls a consumer. A message that the client library cannot read is skipped, because it would stop its topic."""

    def __init__(self, consumer: Any, offsets: dict[Any, Offsets], progress: asyncio.Event) -> None:
        self._consumer = consumer
        self._offsets = offsets
        self._progress = progress
        self._doubtful: deque[Any] = deque()
        """Partitions of which one may have a message that cannot be read."""
        self._unreadable: Any = None

    def forget(self) -> None:
        """Read all partitions at once again, after they were given away."""
        self._doubtful.clear()
        self._unreadable = None

    async def poll(self, room: int) -> dict[Any, Any]:
        """At most `room` messages; after a failure of the client library one message of one partition at a time."""
        try:
            if not self._doubtful:
                polled: dict[Any, Any] = await self._consumer.getmany(timeout_ms=POLL, max_records=room)
                return polled
            partition = self._doubtful[0]
            self._doubtful.rotate(-1)
            polled = await self._consumer.getmany(partition, timeout_ms=POLL, max_records=1)
        except Exception as error:  # a message may make the library raise anything
            if isinstance(error, KafkaError | OSError) and not isinstance(error, OF_MESSAGES):
                raise
            if self._doubtful:
                await self._skip(partition, error)
            else:
                await self._doubt()
            return {}
        if partition == self._unreadable:  # which is behind its unreadable message
            self.forget()
        elif not polled:
            self._doubtful.remove(partition)
        return polled

    async def _doubt(self) -> None:
        """Read the partitions again from where they are. The failed poll has lost the messages before the wrong one."""
        for partition in self._consumer.assignment():
            offsets = self._offsets.get(partition)
            start = offsets.following if offsets else await self._consumer.committed(partition)
            self._consumer.seek(
                partition, await self._consumer.position(partition) if start is None else start
            )
            self._doubtful.append(partition)

    async def _skip(self, partition: Any, error: Exception) -> None:
        """Commit a message that cannot be read, and continue behind it."""
        offset = await self._consumer.position(partition)
        where, reason = f"{partition.topic}[{partition.partition}]:{offset}", shortened(str(error))
        logger.error("message %s cannot be read and is skipped: %s", where, reason)
        offsets = self._offsets.setdefault(partition, Offsets())
        offsets.begin(offset)
        offsets.end(offset)
        self._progress.set()
        self._unreadable = partition
        self._consumer.seek(partition, offset + 1)
