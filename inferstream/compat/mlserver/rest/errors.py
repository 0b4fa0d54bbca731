"""Errors over REST."""

from pydantic import BaseModel
from starlette.requests import Request

from ..errors import MLServerError
from .responses import Response


class APIErrorResponse(BaseModel):
    """The body of a failed call."""

    error: str | None = None


async def handle_mlserver_error(request: Request, exc: MLServerError) -> Response:
    """The answer to a request whose handler has raised `exc`."""
    return Response(APIErrorResponse(error=exc.message).model_dump(), exc.status_code)


__all__ = ["APIErrorResponse", "handle_mlserver_error"]
