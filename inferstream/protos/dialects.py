"""The dialects of streams and `generate`, and the names by which clients request them."""

from typing import Literal

from ..errors import InvalidRequest

Dialect = Literal["mlserver", "triton"]

HEADER = "x-stream-dialect"
"""The header, or gRPC metadata, that names the dialect a client requests, and the dialect of a response."""

FINAL_RESPONSE = "triton_final_response"
"""The parameter of a response that is true if no other response follows."""

NAMES: dict[Dialect, tuple[str, ...]] = {"mlserver": ("v2",), "triton": ()}
"""The dialects, and their other names."""


def asked_dialect(word: str | None) -> Dialect | None:
    """The dialect that the header's value `word` names; None without a value. Raises InvalidRequest for another."""
    if not word:
        return None
    for name, others in NAMES.items():
        if word == name or word in others:
            return name
    known = [
        ", also called ".join(f'"{each}"' for each in (name, *others))
        for name, others in sorted(NAMES.items())
    ]
    raise InvalidRequest(
        f"{HEADER}: {word[:40]!r} is no dialect; the dialects are {', '.join(known[:-1])}, and {known[-1]}"
    )
