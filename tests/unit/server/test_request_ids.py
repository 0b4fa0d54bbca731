"""Ids that clients may choose."""

import pytest

from inferstream.server.request_ids import LONGEST, RequestIds
from inferstream.settings import Settings


@pytest.mark.parametrize("sent", [b"7", b"a b", b"x" * LONGEST, b"req-01/[2]:~!", b"a" + b" " * 126 + b"b"])
def test_printable_ids_are_taken(sent: bytes) -> None:
    assert RequestIds().id(sent) == sent


@pytest.mark.parametrize(
    "sent", [b"", b" ", b"a ", b" a", b"x" * (LONGEST + 1), b"a\tb", b"a\r\nb", b"a\n", b"\x7f", "ü".encode()]
)
def test_others_are_replaced(sent: bytes) -> None:
    made = RequestIds().id(sent)
    assert made is not None
    assert made != sent
    assert len(made) == 36


def test_requests_without_an_id_get_one_only_if_the_settings_say_so() -> None:
    assert RequestIds.of(Settings()).among([(b"host", b"x")]) is None
    every = RequestIds.of(Settings(request_ids="always"))
    assert every.among([]) != every.among([])
    assert every.among([(b"x-request-id", b"1"), (b"x-request-id", b"2")]) == b"2"
