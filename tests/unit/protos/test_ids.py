"""Ids that are safe in logs and in responses."""

import pytest

from inferstream.errors import InvalidRequest
from inferstream.protos.ids import MAX_ID, check_id


@pytest.mark.parametrize("id", ["", "a b", "é🎈", "x" * MAX_ID])
def test_printable_strings_are_ids(id: str) -> None:
    assert check_id(id) == id


@pytest.mark.parametrize("id", ["a\nb", "\x1b[31m", "\u2028", "a\0"])
def test_unprintable_id_is_refused(id: str) -> None:
    with pytest.raises(InvalidRequest, match="id must be printable characters"):
        check_id(id)


def test_long_id_is_refused_with_a_shortened_message() -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_id("x" * (MAX_ID + 1))
    assert (
        refused.value.message
        == f"id '{'x' * 40}'... has {MAX_ID + 1} characters, at most {MAX_ID} are allowed"
    )
