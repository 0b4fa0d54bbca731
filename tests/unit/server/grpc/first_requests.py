"""First requests of streams, which nobody has admitted."""

from typing import Any

from inferstream.server.grpc.dialects.dialect import StreamRequest


def first_of(message: Any) -> StreamRequest:
    """The request in a message."""
    request = StreamRequest.__new__(StreamRequest)
    request.message = message
    return request
