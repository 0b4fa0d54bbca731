"""Builders of OpenAPI operations, for dialects that describe their paths."""

from typing import Any

Schema = dict[str, Any]

OBJECTS: Schema = {"type": "array", "items": {"type": "object"}}
OBJECT: Schema = {"type": "object"}
EVENTS = "text/event-stream"
"""The media type of most streams."""

TEXTS = ["Texts"]
"""The tag under which the API reference lists the operation."""


def getting(summary: str) -> dict[str, Any]:
    """Return a path with a GET operation that returns JSON."""
    return {"get": {"tags": TEXTS, "summary": summary, "responses": _responses(json_content(OBJECT))}}


def posting(
    summary: str,
    schema: Schema,
    example: dict[str, Any],
    stream: str | None = EVENTS,
    answer: Schema = OBJECT,
) -> dict[str, Any]:
    """Return a path with a POST operation that accepts and returns JSON.

    If `stream` is a media type, it may also return a stream, whose items OpenAPI 3.1 cannot describe.
    """
    content = json_content(answer) if stream is None else {**json_content(answer), stream: {}}
    return {
        "post": {
            "tags": TEXTS,
            "summary": summary,
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": schema, "example": example}},
            },
            "responses": _responses(content),
        }
    }


def json_content(schema: Schema) -> dict[str, Any]:
    """Return the content of a JSON request or response with this schema."""
    return {"application/json": {"schema": schema}}


def _responses(content: dict[str, Any]) -> dict[str, Any]:
    failure = {"description": "Failure", "content": json_content(OBJECT)}
    return {"200": {"description": "Success", "content": content}, "default": failure}
