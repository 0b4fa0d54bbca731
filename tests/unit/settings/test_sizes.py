"""Sizes of memory as people write them."""

import pytest
from pydantic import ValidationError

from inferstream.settings import Settings
from inferstream.settings.sizes import shown_size


@pytest.mark.parametrize(
    ("written", "size"),
    [("600MB", 600_000_000), ("1.5 GiB", 3 * 2**29), ("20gb", 20 * 10**9), ("12", 12), (7, 7), ("5KB", 5000)],
)
def test_size_is_bytes_or_has_a_unit(written: object, size: int) -> None:
    assert Settings(max_memory=written).max_memory == size
    assert Settings(max_device_memory={"0": written}).max_device_memory == {"0": size}


@pytest.mark.parametrize("written", ["much", "5 XB", "-1MB", "0", ""])
def test_invalid_size_is_refused(written: str) -> None:
    with pytest.raises(ValidationError, match="max_memory"):
        Settings(max_memory=written)


def test_memory_limits_require_one_front_end() -> None:
    with pytest.raises(ValidationError, match="need frontends 1"):
        Settings(idle_unload=5, frontends=2)


def test_sizes_are_displayed_in_setting_units() -> None:
    assert (shown_size(94_000_000), shown_size(1_500_000_000)) == ("94 MB", "1.5 GB")
