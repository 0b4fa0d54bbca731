"""Errors of the Kafka endpoint."""

from ..errors import MLServerError


class InvalidMessageHeaders(MLServerError):
    """A message lacks a header that it needs."""

    def __init__(self, missing_header: str) -> None:
        super().__init__(f"The message has no header '{missing_header}'", 422)


__all__ = ["InvalidMessageHeaders"]
