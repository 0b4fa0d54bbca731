"""What schedules leave out."""

import pytest


@pytest.fixture(autouse=True)
def no_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unloads of models collect nothing: it would be the heap of all tests, in each of thousands of schedules."""
    monkeypatch.setattr("inferstream.dataplane.execution.local.schedule_collection", lambda: None)
