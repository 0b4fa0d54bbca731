"""Targets of clients."""

import pytest

from inferstream.clients.transport import Target


@pytest.mark.parametrize(
    ("target", "base"),
    [
        (Target("host:8080"), "http://host:8080"),
        (Target("host:8080", ssl=True), "https://host:8080"),
        (Target("https://host/below/"), "https://host/below"),
        (Target("http://host", ssl=True), "http://host"),
    ],
)
def test_the_base_of_a_target_has_a_scheme_and_no_slash_at_its_end(target: Target, base: str) -> None:
    assert target.base == base
