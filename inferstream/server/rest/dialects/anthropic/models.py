"""Models as Anthropic describes them, at the paths that it shares with OpenAI."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

VERSION = b"anthropic-version"
"""The header that Anthropic's clients send with every request, and no others."""


def asks(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether a request is of a client of Anthropic's."""
    return VERSION in dict(headers)


def model_info(name: str, created: int, context_length: int | None) -> dict[str, Any]:
    """One model."""
    time = datetime.fromtimestamp(created, UTC).isoformat().replace("+00:00", "Z")
    named = {"type": "model", "id": name, "display_name": name, "created_at": time, "lifecycle": "active"}
    return named if context_length is None else {**named, "max_input_tokens": context_length}


def model_page(infos: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All models on one page."""
    names = [info["id"] for info in infos]
    return {
        "data": infos,
        "has_more": False,
        "first_id": names[0] if names else None,
        "last_id": names[-1] if names else None,
    }
