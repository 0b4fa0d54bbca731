"""gRPC status codes, and the conversion of errors to statuses."""

import re
from enum import IntEnum
from urllib.parse import quote, unquote

from ...errors import InferstreamError
from ..status import Profile, status_of
from .metadata import AS_IT_IS


class StatusCode(IntEnum):
    """gRPC status codes with their numbers on the wire."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


MAX_MESSAGE_LENGTH = 4096
"""Maximum bytes of an encoded status message. Clients reject calls with more than 8 KiB of headers."""

ELLIPSIS = "…"


def grpc_status(error: BaseException, profile: Profile = "default") -> tuple[StatusCode, str]:
    """Return the status code and message for an error. Unexpected errors are INTERNAL, without details."""
    if not isinstance(error, InferstreamError):
        return StatusCode.INTERNAL, "The server failed; its log says why."
    return StatusCode[status_of(error, profile).grpc], truncate(error.message)


def truncate(message: str) -> str:
    """Truncate a message to the length that a status can carry."""
    if 3 * 4 * len(message) <= MAX_MESSAGE_LENGTH:
        return message
    written = quote(message[: MAX_MESSAGE_LENGTH + 1], safe=AS_IT_IS)
    if len(written) <= MAX_MESSAGE_LENGTH:
        return message
    beginning = written[: MAX_MESSAGE_LENGTH - len(quote(ELLIPSIS))]
    # The cut may have split an escape sequence or a character.
    return unquote(re.sub("%.?$", "", beginning), errors="ignore") + ELLIPSIS
