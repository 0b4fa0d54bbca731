"""Operations of the OpenAPI document, as dialects describe their paths."""

from typing import Any

Schema = dict[str, Any]

OBJECTS: Schema = {"type": "array", "items": {"type": "object"}}
OBJECT: Schema = {"type": "object"}
EVENTS = "text/event-stream"
"""The media type of most streams."""

TEXTS = ["Texts"]
"""The group in which the reference of the page shows an operation."""


def getting(summary: str) -> dict[str, Any]:
    """A path that is read."""
    return {"get": {"tags": TEXTS, "summary": summary, "responses": _responses(content_of(OBJECT))}}


def posting(
    summary: str,
    schema: Schema,
    example: dict[str, Any],
    stream: str | None = EVENTS,
    answer: Schema = OBJECT,
) -> dict[str, Any]:
    """A path that takes JSON and answers JSON, or a stream of this media type, whose items OpenAPI 3.1 cannot tell."""
    content = content_of(answer) if stream is None else {**content_of(answer), stream: {}}
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


def content_of(schema: Schema) -> dict[str, Any]:
    """JSON of a schema, as what is sent or answered."""
    return {"application/json": {"schema": schema}}


def _responses(content: dict[str, Any]) -> dict[str, Any]:
    failure = {"description": "Failure", "content": content_of(OBJECT)}
    return {"200": {"description": "Success", "content": content}, "default": failure}
