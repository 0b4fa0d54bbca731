"""The structural tag of xgrammar, by which engines restrict a text to tool calls."""

from typing import Any


def build_tag(calls: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the structural tag for one of these calls, with arguments that match its schema."""
    tags = [
        {
            "type": "tag",
            "begin": call["front"],
            "content": {"type": "json_schema", "json_schema": call["schema"]},
            "end": call["end"],
        }
        for call in calls
    ]
    return {"type": "structural_tag", "format": {"type": "or", "elements": tags}}
