"""Kafka messages that cannot be served: each is reported and committed, and those behind it are answered once."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.record import default_records

from tests.broker import Broker, Endpoint
from tests.collector import Collector
from tests.serving import fp32, text

GOOD = json.dumps(fp32([1.0])).encode()
ECHO = ("mlserver-model", b"echo")

Message = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    started = Broker()
    yield started
    started.stop()


async def send(endpoint: Endpoint, messages: Sequence[Message]) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=endpoint.broker.address, max_request_size=2**26, max_batch_size=1
    )
    await producer.start()
    try:
        for key, value, headers in messages:
            await producer.send_and_wait(endpoint.asked, value, key, partition=0, headers=headers)
    finally:
        await producer.stop()


async def responses(endpoint: Endpoint, count: int) -> list[tuple[bytes | None, dict]]:
    """So many responses, and further ones that there are by mistake."""
    found: list[Any] = []
    async with endpoint.broker._consumer(endpoint.answered) as consumer, asyncio.timeout(30):
        while len(found) < count:
            found.append(await consumer.getone())
        for more in (await consumer.getmany(timeout_ms=1000)).values():
            found += more
    return [(record.key, json.loads(record.value)) for record in found]


def honest(count: int, first: int = 0) -> list[Message]:
    return [(f"good-{number}".encode(), GOOD, [ECHO]) for number in range(first, first + count)]


HOSTILE: dict[str, Message] = {
    "a long key": (b"\x01" * 60_000, b"{", [ECHO]),
    "a key as long as a message": (b"\x01" * 199_900, b"{", [ECHO]),
    "a key that is no text": (b"\xff\xfe" * 300, GOOD, [ECHO]),
    "no key": (None, b"{", [ECHO]),
    "an empty key": (b"", b"{", [ECHO]),
    "a tombstone": (b"tombstone", None, [ECHO]),
    "a tombstone without headers": (b"tombstone-2", None, []),
    "a model of null": (b"null model", GOOD, [("mlserver-model", None)]),
    "a header of null": (b"null header", GOOD, [ECHO, ("traceparent", None), ("x", None)]),
    "headers that are no text": (b"latin", GOOD, [ECHO, ("traceparent", b"\xff\xfe"), ("\ud7ff", b"\x00\n")]),
    "the model twice": (b"twice", GOOD, [ECHO, ("mlserver-model", b"nobody")]),
    "a name of a model that is as long as a message": (
        b"name",
        GOOD,
        [("mlserver-model", b"\x01" * 150_000)],
    ),
    "a method that is as long": (b"method", GOOD, [ECHO, ("mlserver-method", b"\x01" * 150_000)]),
    "a version that is as long": (b"version", GOOD, [ECHO, ("mlserver-version", b"\x01" * 150_000)]),
    "many headers": (b"many", GOOD, [ECHO, *[(f"h{number}", b"") for number in range(5000)]]),
    "a value that is too large": (b"value", b" " * 300_000, [ECHO]),
    "a lone surrogate": (b"surrogate", b'{"id": "\\ud800", "inputs": []}', [ECHO]),
    "an error that repeats the value": (
        b"repeated",
        json.dumps(
            {"inputs": [{"name": "\x01" * 30_000, "datatype": "X", "shape": [1], "data": [1]}]}
        ).encode(),
        [ECHO],
    ),
    "a response that is too large": (
        b"response",
        json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [60_000], "data": [1] * 60_000}]})
        .replace(" ", "")
        .encode(),
        [ECHO],
    ),
    "a model that fails": (b"failing", GOOD, [("mlserver-model", b"failing")]),
    "a model that cancels itself": (
        b"cancelling",
        json.dumps(fp32([1.0], parameters={"mode": "cancelled"})).encode(),
        [("mlserver-model", b"failing")],
    ),
    "a model that says a lot": (
        b"saying",
        json.dumps(fp32([1.0], parameters={"mode": "say", "words": "\x01", "times": 100_000})).encode(),
        [("mlserver-model", b"failing")],
    ),
    "a model that returns nothing": (
        b"nothing",
        json.dumps(fp32([1.0], parameters={"mode": "none"})).encode(),
        [("mlserver-model", b"failing")],
    ),
    "no time": (
        b"timeout",
        json.dumps(text(parameters={"seconds": 30, "timeout": 1000})).encode(),
        [("mlserver-model", b"slow")],
    ),
}


@pytest.mark.parametrize(
    "host",
    [{}, {"parallel_workers": 2}, {"frontends": 2}],
    ids=["in-process", "workers", "front-ends"],
)
async def test_bad_message_neither_blocks_nor_repeats_others(
    broker: Broker, tmp_path: Path, host: dict[str, int]
) -> None:
    collector = Collector()
    endpoint = Endpoint(
        tmp_path,
        broker,
        **host,
        max_body_bytes=200_000,
        tracing_server=f"127.0.0.1:{collector.port}",
        kafka_max_in_flight=4,
    )
    messages = [*honest(20)]
    for number, message in enumerate(HOSTILE.values()):
        messages += [message, *honest(2, 20 + 2 * number)]
    await send(endpoint, [*messages, (b"last", GOOD, [ECHO])])
    await endpoint.answers("last")
    assert endpoint.running.stop() == 0, endpoint.running.text()
    collector.stop()
    found = await responses(endpoint, len(messages) + 1)
    keys = Counter(key for key, _ in found)
    assert all(keys[key] == 1 for key, _, _ in messages if key and key.startswith(b"good")), keys
    assert len(found) == len(messages) + 1  # refusals are sent once too
    assert "; retrying in" not in endpoint.running.text()
    assert await broker.committed(endpoint.asked, endpoint.name) == len(messages) + 1
    codes = {key: document.get("code") for key, document in found}
    assert codes[b"response"] == "too_large"
    assert codes[b"null header"] is codes[b"latin"] is codes[b"many"] is None
    assert codes[b"null model"] == codes[b"tombstone"] == "invalid"
    assert {key for key in codes if codes[key] == "not_found"} == {b"twice", b"name", b"version"}
    assert max(len(json.dumps(document)) for _, document in found) < 60_000


async def test_undeliverable_response_is_logged_and_committed(broker: Broker, tmp_path: Path) -> None:
    endpoint = Endpoint(tmp_path, broker, max_body_bytes=300)
    await send(endpoint, [(b"k" * 290, b"{", [ECHO]), *honest(10), (b"last", GOOD, [ECHO])])
    await endpoint.answers("last")
    assert endpoint.running.stop() == 0, endpoint.running.text()
    assert "no response could be sent" in endpoint.running.text()
    assert "; retrying in" not in endpoint.running.text()
    assert await broker.committed(endpoint.asked, endpoint.name) == 12


class RawName:
    """The name of a header that is no text."""

    def encode(self, encoding: str) -> bytes:
        return b"\xff\xfe"


async def send_raw(endpoint: Endpoint, headers: list[Any]) -> None:
    """Send a batch of one message as other clients may make it."""
    producer = AIOKafkaProducer(bootstrap_servers=endpoint.broker.address)
    await producer.start()
    try:
        batch = producer.create_batch()
        builder = default_records._DefaultRecordBatchBuilderPy(2, 0, 0, -1, -1, -1, 2**20)
        batch._builder = builder
        builder.append(0, None, b"raw", GOOD, headers)
        batch._relative_offset = 1
        await (await producer.send_batch(batch, endpoint.asked, partition=0))
    finally:
        await producer.stop()


@pytest.mark.parametrize("frontends", [1, 2])
async def test_unreadable_message_is_skipped(broker: Broker, tmp_path: Path, frontends: int) -> None:
    endpoint = Endpoint(tmp_path, broker, frontends=frontends)
    await send(endpoint, honest(5))
    await send_raw(endpoint, [(RawName(), b"x")])
    await send(endpoint, honest(5, 5))
    await send_raw(endpoint, [(RawName(), b"x")])
    await send(endpoint, [*honest(5, 10), (b"last", GOOD, [ECHO])])
    await endpoint.answers("last")
    assert endpoint.running.stop() == 0, endpoint.running.text()
    assert endpoint.running.text().count(" is skipped: ") == 2
    assert "; retrying in" not in endpoint.running.text()
    keys = Counter(key for key, _ in await responses(endpoint, 16))
    assert keys == Counter([*[f"good-{number}".encode() for number in range(15)], b"last"])
    assert await broker.committed(endpoint.asked, endpoint.name) == 18
