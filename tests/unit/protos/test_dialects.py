"""The names by which clients ask for a dialect."""

import pytest

from inferstream.errors import InvalidRequest
from inferstream.protos.dialects import parse_dialect

NAMES = {"mlserver": ("v2",), "triton": ()}


@pytest.mark.parametrize(
    ("word", "dialect"),
    [(None, None), ("", None), ("triton", "triton"), ("mlserver", "mlserver"), ("v2", "mlserver")],
)
def test_dialect_has_aliases(word: str | None, dialect: str | None) -> None:
    assert parse_dialect(word, NAMES) == dialect


def test_unknown_name_is_refused_with_known_names() -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_dialect("x" * 1000, NAMES)
    assert refused.value.message == (
        f"x-stream-dialect: '{'x' * 40}' is no dialect; the dialects are "
        '"mlserver", also called "v2", and "triton"'
    )
