"""Limits of the memory of all models."""

from typing import Any

import pytest
from pydantic import ValidationError

from inferstream.settings.memory import MemorySettings


def test_sizes_may_have_units() -> None:
    limits = MemorySettings(max_memory="600MB", max_device_memory={"0": "20GB", "1": 5})
    assert limits.max_memory == 600_000_000
    assert limits.max_device_memory == {"0": 20_000_000_000, "1": 5}


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        ({}, False),
        ({"spare_workers": 1}, False),
        ({"max_memory": 1}, True),
        ({"max_device_memory": {"0": 1}}, True),
        ({"idle_unload": 0.5}, True),
    ],
)
def test_evictable_models_require_one_front_end(given: dict[str, Any], limits: bool) -> None:
    assert MemorySettings(**given).limits_memory is limits
    if not limits:
        assert MemorySettings(frontends=2, **given).frontends == 2
        return
    with pytest.raises(ValidationError, match="need frontends 1, because a model that leaves memory"):
        MemorySettings(frontends=2, **given)


@pytest.mark.parametrize(
    "given", [{"max_memory": "many"}, {"max_memory": 0}, {"idle_unload": 0}, {"spare_workers": -1}]
)
def test_invalid_limit_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(given))):
        MemorySettings(**given)
