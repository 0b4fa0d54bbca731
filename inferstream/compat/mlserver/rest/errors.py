"""Errors over REST."""

from pydantic import BaseModel


class APIErrorResponse(BaseModel):
    """The body of a failed call."""

    error: str | None = None


__all__ = ["APIErrorResponse"]
