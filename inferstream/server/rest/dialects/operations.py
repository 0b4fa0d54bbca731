"""Operations of the OpenAPI document, as dialects describe their paths."""

from typing import Any

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean", "default": False}
STRINGS: Schema = {"type": "array", "items": STRING}
OBJECTS: Schema = {"type": "array", "items": {"type": "object"}}
COUNT: Schema = {"type": "integer", "minimum": 1}
POSITIVE: Schema = {"type": "number", "exclusiveMinimum": 0}

OBJECT: Schema = {"type": "object"}
OBJECT_OR_LIST: Schema = {"type": ["object", "array"]}
EVENTS = "text/event-stream"
"""The media type of most streams."""

TEXTS = ["Texts"]
"""The group in which the reference of the page shows an operation."""


def an_object(required: tuple[str, ...], **properties: Schema) -> Schema:
    """The schema of an object."""
    return {"type": "object", "required": [*required], "properties": properties}


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
