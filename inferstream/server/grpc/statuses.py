"""The status codes of gRPC, and the status of an error as the client sees it."""

import re
from enum import IntEnum
from urllib.parse import quote, unquote

from ...errors import InferstreamError
from ..status import Profile, status_of
from .metadata import AS_IT_IS


class StatusCode(IntEnum):
    """The codes of gRPC with their numbers on the wire."""

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


LONGEST_MESSAGE = 4096
"""Bytes of a gRPC message as a header. Clients refuse a call if its headers exceed 8 KiB together."""

ELLIPSIS = "…"


def grpc_status(error: BaseException, profile: Profile = "default") -> tuple[StatusCode, str]:
    """The status code and message of an error; INTERNAL without details for one outside our tree."""
    if not isinstance(error, InferstreamError):
        return StatusCode.INTERNAL, "The server failed; its log says why."
    return StatusCode[status_of(error, profile).grpc], shortened(error.message)


def shortened(message: str) -> str:
    """The message, cut to the length that a status can carry."""
    if 3 * 4 * len(message) <= LONGEST_MESSAGE:
        return message
    written = quote(message[: LONGEST_MESSAGE + 1], safe=AS_IT_IS)
    if len(written) <= LONGEST_MESSAGE:
        return message
    beginning = written[: LONGEST_MESSAGE - len(quote(ELLIPSIS))]
    # The cut may have divided an escape or a character.
    return unquote(re.sub("%.?$", "", beginning), errors="ignore") + ELLIPSIS
