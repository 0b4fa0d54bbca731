"""Operations of the OpenAPI document, as dialects describe their paths."""

from typing import Any

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean", "default": False}
STRINGS: Schema = {"type": "array", "items": STRING}
OBJECTS: Schema = {"type": "array", "items": {"type": "object"}}
COUNT: Schema = {"type": "integer", "minimum": 1}
POSITIVE: Schema = {"type": "number", "exclusiveMinimum": 0}

EVENTS = "text/event-stream"
"""The media type of most streams."""

TEXTS = ["Texts"]
"""The group in which the reference of the page shows an operation."""


def an_object(required: tuple[str, ...], **properties: Schema) -> Schema:
    """The schema of an object."""
    return {"type": "object", "required": [*required], "properties": properties}


def getting(summary: str) -> dict[str, Any]:
    """A path that is read."""
    answer = {"description": "Success", "content": {"application/json": {"schema": {"type": "object"}}}}
    return {"get": {"tags": TEXTS, "summary": summary, "responses": {"200": answer}}}


def posting(
    summary: str, schema: Schema, example: dict[str, Any], stream: str | None = EVENTS
) -> dict[str, Any]:
    """A path that takes JSON and answers JSON, or a stream of this media type."""
    document = {"application/json": {"schema": {"type": "object"}}}
    content = document if stream is None else {**document, stream: {"schema": STRING}}
    return {
        "post": {
            "tags": TEXTS,
            "summary": summary,
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": schema, "example": example}},
            },
            "responses": {
                "200": {"description": "Success", "content": content},
                "default": {"description": "Failure", "content": document},
            },
        }
    }
