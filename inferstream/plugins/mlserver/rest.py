"""Responses for the custom routes of a model."""

from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse

from inferstream.errors import ModelError as MLServerError

from .json_text import encode_to_json_bytes


class Response(JSONResponse):
    """A JSON response that can contain arrays."""

    def render(self, content: Any) -> bytes:
        return encode_to_json_bytes(content)


class ServerSentEvent:
    """An event of a server-sent event stream."""

    def __init__(self, data: BaseModel, *_: Any, **__: Any) -> None:
        self.data = data

    def encode(self) -> bytes:
        """Serialize the event."""
        return b"data: " + encode_to_json_bytes(self.data.model_dump()) + b"\n\n"


class APIErrorResponse(BaseModel):
    """The body of an error response."""

    error: str | None = None


async def handle_mlserver_error(request: Request, exc: MLServerError) -> Response:
    """Create the response for an error of a handler."""
    return Response(APIErrorResponse(error=exc.message).model_dump(), exc.status_code)
