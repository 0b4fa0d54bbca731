"""Targets of clients."""

import ssl

import pytest

from inferstream.clients.transport import Target, any_certificate


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


def test_a_client_that_does_not_verify_takes_any_certificate() -> None:
    context = any_certificate()
    assert (context.check_hostname, context.verify_mode) == (False, ssl.CERT_NONE)
