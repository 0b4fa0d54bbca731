"""The door to Kafka, where it can be."""

import pytest

from inferstream.server.server import Server
from inferstream.settings import Settings


async def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in ("door", "session"):
        monkeypatch.delitem(sys.modules, f"inferstream.kafka.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "aiokafka", None)
    with pytest.raises(Exception, match=r"inferstream\[kafka\]"):
        Server(Settings(kafka_enabled=True))
