"""Responses of routes that are a model's own."""

from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse

from inferstream.codecs.json import encode_to_json_bytes
from inferstream.errors import ModelError as MLServerError


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


class APIErrorResponse(BaseModel):
    """The body of a failed call."""

    error: str | None = None


async def handle_mlserver_error(request: Request, exc: MLServerError) -> Response:
    """The response to a request whose handler has raised `exc`."""
    return Response(APIErrorResponse(error=exc.message).model_dump(), exc.status_code)
