"""The door to Kafka, where it can be."""

import sys

import pytest

from inferstream import Settings
from inferstream.errors import InvalidSettings
from inferstream.ext.hosting import build_server


async def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiokafka", None)
    with pytest.raises(InvalidSettings, match='hint: pip install "aiokafka'):
        build_server(Settings(kafka_enabled=True))
