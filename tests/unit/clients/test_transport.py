"""Targets of clients."""

import ssl

import pytest

from inferstream.clients.transport import ModelName, Target, build_unverified_context


@pytest.mark.parametrize(
    ("target", "base"),
    [
        (Target("host:8080"), "http://host:8080"),
        (Target("host:8080", ssl=True), "https://host:8080"),
        (Target("https://host/below/"), "https://host/below"),
        (Target("http://host", ssl=True), "http://host"),
        (Target("HTTPS://Host"), "https://Host"),
    ],
)
def test_base_url_has_scheme_and_no_trailing_slash(target: Target, base: str) -> None:
    assert target.base == base


@pytest.mark.parametrize(
    ("target", "verifies"),
    [
        (Target("HTTPS://host"), True),
        (Target("host", ssl=True), True),
        (Target("https://host", verify=False), False),
        (Target("http://host"), False),
    ],
)
def test_certificate_is_verified_by_default(target: Target, verifies: bool) -> None:
    assert target.verifies is verifies


def test_model_path_is_quoted_and_has_its_version() -> None:
    assert ModelName("a/b").path == "/v2/models/a%2Fb"
    assert ModelName("a b", "1/2").path == "/v2/models/a%20b/versions/1%2F2"


def test_non_verifying_client_accepts_any_certificate() -> None:
    context = build_unverified_context()
    assert (context.check_hostname, context.verify_mode) == (False, ssl.CERT_NONE)


def test_only_tls_target_has_an_ssl_context() -> None:
    assert Target("http://host").tls_context() is None
    verifying, other = (
        Target("https://host").tls_context(),
        Target("host", ssl=True, verify=False).tls_context(),
    )
    assert verifying is not None
    assert (verifying.check_hostname, verifying.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert other is not None
    assert (other.check_hostname, other.verify_mode) == (False, ssl.CERT_NONE)
