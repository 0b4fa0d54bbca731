"""Which messages are done with, and what ends a session."""

import asyncio
import json
import zlib
from collections.abc import Callable
from gzip import BadGzipFile
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import (
    CorruptRecordException,
    KafkaError,
    MessageSizeTooLargeError,
    NodeNotReadyError,
    RecordListTooLargeError,
    UnsupportedCodecError,
)

from inferstream import Settings
from inferstream.errors import NotFound
from inferstream.plugins.kafka.reading import Offsets
from inferstream.plugins.kafka.session import Session


def test_offsets_are_committed_in_order() -> None:
    offsets = Offsets()
    for offset in (5, 6, 9):
        offsets.begin(offset)
    offsets.end(6)
    assert offsets.take() is None
    offsets.end(5)
    assert (offsets.take(), offsets.take()) == (7, None)
    offsets.end(9)
    assert offsets.take() == 10


class Record(NamedTuple):
    offset: int
    key: bytes | None = b"key"
    value: bytes | None = b"{"
    headers: tuple[tuple[str, bytes | None], ...] = (("mlserver-model", b"m"),)
    topic: str = "in"
    partition: int = 0


PARTITION = TopicPartition("in", 0)


class Producer:
    """Refuses the first messages, each with the next error."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = [*errors]
        self.sent: list[tuple[bytes | None, dict]] = []

    async def send_and_wait(self, topic: str, value: bytes, key: bytes | None, headers: object) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.sent.append((key, json.loads(value)))


class Consumer:
    """Holds records by their offsets; one that is an error cannot be read."""

    def __init__(self, *records: Record | Exception) -> None:
        self.records = [*records]
        self.at = 0
        self.committed_to: list[int] = []

    def assignment(self) -> set[TopicPartition]:
        return {PARTITION}

    async def getmany(self, *_: TopicPartition, timeout_ms: int, max_records: int) -> dict:
        await asyncio.sleep(0)
        found = []
        while self.at < len(self.records) and len(found) < max_records:
            record = self.records[self.at]
            if isinstance(record, Exception):
                if not found:
                    raise record
                self.at += 1  # as the library does: what it has read is lost
                raise record
            found.append(record)
            self.at += 1
        return {PARTITION: found} if found else {}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.at = offset

    async def position(self, partition: TopicPartition) -> int:
        return self.at

    async def committed(self, partition: TopicPartition) -> int | None:
        return 0

    async def commit(self, positions: dict[TopicPartition, int]) -> None:
        self.committed_to.append(positions[PARTITION])


async def served(consumer: Consumer, producer: Producer, last: int, **limits: int) -> int:
    """Serve until the offset `last` is committed, and return the most messages at once.

    Raises what ends the session.
    """
    running_now = most = 0

    def admit(*_: object) -> None:
        raise NotFound("no model")

    async def when_loaded(ask: Callable[[], object]) -> object:
        nonlocal running_now, most
        running_now += 1
        most = max(most, running_now)
        for _ in range(10):  # others begin, if they may
            await asyncio.sleep(0)
        running_now -= 1
        return ask()

    dataplane = SimpleNamespace(admit=admit, when_loaded=when_loaded, of=lambda _: None, events=None)
    session = Session(cast(Any, dataplane), Settings(**limits), consumer, producer)
    running = asyncio.create_task(session.run())
    async with asyncio.timeout(20):
        while last not in consumer.committed_to and not running.done():
            await asyncio.sleep(0.01)
    session.leaving.set()
    await running
    return most


TOO_LARGE = MessageSizeTooLargeError()


@pytest.mark.parametrize("refused", range(4))
@pytest.mark.parametrize("error", [TOO_LARGE, RecordListTooLargeError(), CorruptRecordException()])
async def test_rejected_response_does_not_stop_session(refused: int, error: Exception) -> None:
    consumer = Consumer(Record(0, b"\x01" * 60_000), Record(1, b"next"))
    producer = Producer()
    producer.errors = [error] * refused
    await served(consumer, producer, 2)
    assert consumer.committed_to[-1] == 2
    assert len(producer.sent) >= 1
    assert {document["code"] for _, document in producer.sent} <= {"not_found", "too_large"}


async def test_minimal_refusal_has_key_prefix_and_no_id() -> None:
    consumer, producer = Consumer(Record(0, b"\x01" * 60_000)), Producer(TOO_LARGE, TOO_LARGE)
    await served(consumer, producer, 1)
    [(key, document)] = producer.sent
    assert (key, document["code"], "id" in document) == (b"\x01" * 256, "too_large", False)
    assert len(json.dumps(document)) < 300


async def test_cluster_error_ends_session_without_commit() -> None:
    consumer = Consumer(Record(0))
    with pytest.raises(KafkaError):
        await served(consumer, Producer(NodeNotReadyError()), 1)
    assert consumer.committed_to == []


UNREADABLE = [
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"),
    CorruptRecordException(),
    UnsupportedCodecError(),
    BadGzipFile(),
    zlib.error(),
    EOFError(),
    IndexError(),
]


@pytest.mark.parametrize("error", UNREADABLE)
async def test_only_unreadable_message_is_skipped(error: Exception) -> None:
    records: list[Record | Exception] = [Record(number, b"%d" % number) for number in range(20)]
    for wrong in (0, 5, 6, 19):
        records[wrong] = error
    consumer, producer = Consumer(*records), Producer()
    await served(consumer, producer, 20)
    keys = [int(key or b"") for key, _ in producer.sent]
    assert sorted(keys) == [number for number in range(20) if number not in (0, 5, 6, 19)]


async def test_cluster_error_skips_no_message() -> None:
    with pytest.raises(KafkaError):
        await served(Consumer(NodeNotReadyError()), Producer(), 1)


@pytest.mark.parametrize(("limit", "most"), [(100, 1), (300, 1), (1000, 3), (10**6, 12)])
async def test_bytes_in_progress_are_bounded(limit: int, most: int) -> None:
    records = [Record(number, b"%d" % number, b"{" * 300) for number in range(12)]
    consumer, producer = Consumer(*records), Producer()
    assert await served(consumer, producer, 12, max_inflight_bytes=limit) == most
    assert [int(key or b"") for key, _ in producer.sent] == [*range(12)], "each once, also a larger one"
