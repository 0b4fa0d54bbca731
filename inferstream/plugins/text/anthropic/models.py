"""Model information in the Anthropic format, at paths shared with OpenAI."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

VERSION = b"anthropic-version"
"""A header that only Anthropic clients send, with every request."""


def is_anthropic_request(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Return whether an Anthropic client sent the request."""
    return VERSION in dict(headers)


def model_info(name: str, created: int, context_length: int | None) -> dict[str, Any]:
    """Return the information about one model."""
    time = datetime.fromtimestamp(created, UTC).isoformat().replace("+00:00", "Z")
    named = {"type": "model", "id": name, "display_name": name, "created_at": time, "lifecycle": "active"}
    return named if context_length is None else {**named, "max_input_tokens": context_length}


def model_page(infos: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return all models as a single page."""
    names = [info["id"] for info in infos]
    return {
        "data": infos,
        "has_more": False,
        "first_id": names[0] if names else None,
        "last_id": names[-1] if names else None,
    }
