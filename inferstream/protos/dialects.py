"""The names with which clients select the dialect of a stream or of `generate`."""

from collections.abc import Mapping, Sequence

from ..errors import InvalidRequest

HEADER = "x-stream-dialect"
"""The header or gRPC metadata that names the dialect, in requests and in responses."""

RESERVED_PREFIX = "triton_"
"""The prefix of parameter names that are not allowed in requests to a model."""

FINAL_RESPONSE = f"{RESERVED_PREFIX}final_response"
"""The response parameter that is true for the last response."""


def parse_dialect(word: str | None, dialects: Mapping[str, Sequence[str]]) -> str | None:
    """Return the dialect that the header value `word` names, or None if the value is missing.

    `dialects` maps the name of each dialect to its aliases. Raises InvalidRequest for an unknown name.
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
