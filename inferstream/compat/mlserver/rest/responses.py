"""Answers over REST, for routes of a model's own."""

from typing import Any

from pydantic import BaseModel
from starlette.responses import JSONResponse

from inferstream.codecs.json import encode_to_json_bytes


class Response(JSONResponse):
    """JSON of a value that may hold arrays."""

    def render(self, content: Any) -> bytes:
        return encode_to_json_bytes(content)


class ServerSentEvent:
    """One event of a stream."""

    def __init__(self, data: BaseModel, *_: Any, **__: Any) -> None:
        self.data = data

    def encode(self) -> bytes:
        """The event as it travels."""
        return b"data: " + encode_to_json_bytes(self.data.model_dump()) + b"\n\n"


__all__ = ["Response", "ServerSentEvent"]
