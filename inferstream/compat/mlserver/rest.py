"""Responses of a model's custom routes."""

from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse

from inferstream.errors import ModelError as MLServerError

from .json_text import encode_to_json_bytes


class Response(JSONResponse):
    """JSON of a value that may contain arrays."""

    def render(self, content: Any) -> bytes:
        return encode_to_json_bytes(content)


class ServerSentEvent:
    """One event of a stream."""

    def __init__(self, data: BaseModel, *_: Any, **__: Any) -> None:
        self.data = data

    def encode(self) -> bytes:
        """The bytes of the event."""
        return b"data: " + encode_to_json_bytes(self.data.model_dump()) + b"\n\n"


class APIErrorResponse(BaseModel):
    """The body of a failed call."""

    error: str | None = None


async def handle_mlserver_error(request: Request, exc: MLServerError) -> Response:
    """The response for the error `exc` of a handler."""
    return Response(APIErrorResponse(error=exc.message).model_dump(), exc.status_code)
