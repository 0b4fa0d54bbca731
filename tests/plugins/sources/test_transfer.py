"""What a fetch tells the terminal."""

import pytest

from inferstream.ext.telemetry import StatusLine
from inferstream.plugins.sources.transfer import Transfer, fetching_line


def test_terminal_line_shows_each_transfer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Transfer, "running", {})
    assert fetching_line() == ""
    known, unknown = Transfer("s3://models/chat", 10**10), Transfer("hf://org/embed", 10**10)
    known.total = 1_200_000_000
    known.add(408_000_000)
    unknown.add(3_000_000)
    Transfer.running.update({"s3://models/chat": known, "hf://org/embed": unknown})
    assert fetching_line() == "fetching s3://models/chat: 34 % of 1.2 GB, hf://org/embed: 3 MB …"
    assert fetching_line in StatusLine.before_loads
