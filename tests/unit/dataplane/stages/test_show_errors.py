"""Which clients are shown exceptions, and what of them."""

import pytest

from inferstream.dataplane.call import Call, Operation
from inferstream.dataplane.stages.show_errors import MAX_TRACEBACK_LENGTH, add_traceback, is_local_client
from inferstream.errors import DeadlineExceeded, InferenceFailed, InvalidRequest, ModelError
from inferstream.settings import Settings
from inferstream.telemetry.tracebacks import RaisedElsewhere
from inferstream.types import Headers, InferenceRequest


class Client:
    identities = ()

    def __init__(self, peer: str) -> None:
        self.peer = peer


def call_from(headers: object) -> Call:
    return Call(Operation.INFER, "m", None, InferenceRequest(inputs=[]), headers)


@pytest.mark.parametrize(
    ("peer", "near"),
    [
        ("ipv4:127.0.0.1:5000", True),
        ("ipv4:127.8.9.1:5000", True),
        ("ipv6:[::1]:5000", True),
        ("ipv6:[::ffff:127.0.0.1]:5000", True),
        ("ipv4:10.0.0.1:5000", False),
        ("ipv4:128.0.0.1:127", False),
        ("ipv6:[fe80::1%eth0]:5000", False),
        ("ipv6:[::ffff:10.0.0.1]:5000", False),
        ("ipv6:[::]:5000", False),
        ("unix:/run/proxy.sock", False),
        ("unknown", False),
        ("", False),
    ],
)
def test_only_loopback_addresses_are_local(peer: str, near: bool) -> None:
    assert is_local_client(call_from(Headers([], None, Client(peer)))) is near


@pytest.mark.parametrize(
    "header",
    [(b"forwarded", b"for=::1"), (b"X-Forwarded-Host", b"a"), ("x-forwarded-for", "127.0.0.1")],
)
def test_proxied_caller_is_not_local(header: tuple) -> None:
    assert not is_local_client(call_from(Headers([("a", "b"), header], None, Client("ipv4:127.0.0.1:1"))))


def test_caller_without_address_is_not_local() -> None:
    assert not is_local_client(call_from({}))
    assert not is_local_client(call_from(Headers([])))


def failed(message: str, text: str) -> InferenceFailed:
    error = InferenceFailed(message)
    error.__cause__ = RaisedElsewhere(text)
    return error


def test_errors_of_other_callers_are_unchanged() -> None:
    error = failed("Model m failed.", "Traceback\nValueError: x")
    assert add_traceback(error).message == "Model m failed.\nTraceback\nValueError: x"
    assert error.message == "Model m failed."


def test_end_of_a_long_traceback_is_shown() -> None:
    said = add_traceback(failed("Model m failed.", "a" * 9999 + "ValueError: x")).message
    assert len(said) < MAX_TRACEBACK_LENGTH + 50
    assert said.endswith("ValueError: x")


def test_client_errors_are_unchanged() -> None:
    for error in (InvalidRequest("x"), DeadlineExceeded(), ModelError("x", 500), ModelError("x", 418)):
        error.__cause__ = None
        assert add_traceback(error) is error
    refusal = InvalidRequest("x")
    refusal.__cause__ = RaisedElsewhere("secret")
    assert add_traceback(refusal) is refusal


def test_errors_are_shown_only_in_development() -> None:
    assert not Settings(_env_file=None).shows_errors
    assert Settings(_env_file=None, debug=True).shows_errors
    assert not Settings(_env_file=None, debug=True, show_errors="never").shows_errors
    reloading = Settings(_env_file=None)
    reloading._reloads = True
    assert reloading.shows_errors
