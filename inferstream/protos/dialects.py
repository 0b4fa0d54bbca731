"""The dialects that streams and `generate` are answered in, and the words a client asks for one with."""

from typing import Literal

from ..errors import InvalidRequest

Dialect = Literal["mlserver", "triton"]

HEADER = "x-stream-dialect"
"""The header, or gRPC metadata, by which a client asks for a dialect and a response says which it is in."""

_WORDS: dict[str, Dialect] = {"mlserver": "mlserver", "v2": "mlserver", "triton": "triton"}


def asked_dialect(word: str | None) -> Dialect | None:
    """The dialect a client asks for with the header's value; None without one. Raises InvalidRequest."""
    if not word:
        return None
    if (dialect := _WORDS.get(word)) is None:
        raise InvalidRequest(
            f'{HEADER}: {word[:40]!r} is no dialect; the dialects are "mlserver", also called "v2", and "triton"'
        )
    return dialect
