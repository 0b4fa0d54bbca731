"""The names by which clients request a dialect of streams or of `generate`."""

from collections.abc import Mapping, Sequence

from ..errors import InvalidRequest

HEADER = "x-stream-dialect"
"""The header, or gRPC metadata, that names the dialect a client requests, and the dialect of a response."""

RESERVED_PREFIX = "triton_"
"""The beginning of the names of parameters that no request to a model may have."""

FINAL_RESPONSE = f"{RESERVED_PREFIX}final_response"
"""The parameter of a response that is true if no other response follows."""


def asked_dialect(word: str | None, dialects: Mapping[str, Sequence[str]]) -> str | None:
    """The dialect that the header's value `word` names; None without a value. Raises InvalidRequest for another.

    `dialects` has their names, and the other names of each.
    """
    if not word:
        return None
    for name, others in dialects.items():
        if word == name or word in others:
            return name
    *first, last = [
        ", also called ".join(f'"{each}"' for each in (name, *others))
        for name, others in sorted(dialects.items())
    ]
    known = f"{', '.join(first)}, and {last}" if first else last
    raise InvalidRequest(f"{HEADER}: {word[:40]!r} is no dialect; the dialects are {known}")
