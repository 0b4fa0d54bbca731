"""Models as Anthropic describes them, at the paths that it shares with OpenAI."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

VERSION = b"anthropic-version"
"""The header that Anthropic's clients send with every request, and no others."""


def asks(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether a request is of a client of Anthropic's."""
    return VERSION in dict(headers)


def model_info(name: str, created: int) -> dict[str, Any]:
    """One model."""
    time = datetime.fromtimestamp(created, UTC).isoformat().replace("+00:00", "Z")
    return {"type": "model", "id": name, "display_name": name, "created_at": time, "lifecycle": "active"}


def model_page(created: Mapping[str, int]) -> dict[str, Any]:
    """All models on one page; `created` has the time when each was loaded, by name."""
    names = [*created]
    return {
        "data": [model_info(name, time) for name, time in created.items()],
        "has_more": False,
        "first_id": names[0] if names else None,
        "last_id": names[-1] if names else None,
    }
