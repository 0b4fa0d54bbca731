"""The audit log: one JSON line for each call, without contents."""

import logging

import msgspec

from inferstream.ext.telemetry import LineFile

from ..errors import InvalidSettings


class AuditRecord(msgspec.Struct, gc=False):
    """Who called what, how much, and how it ended. `time` is in seconds since 1970."""

    time: float
    principal: str | None
    """None, as `key`, where the client has shown no valid key."""
    key: str | None
    peer: str
    """The address of the client, of which a trusted proxy may tell."""
    door: str
    dialect: str
    operation: str
    model: str
    version: str
    request_id: str
    tokens: int
    bytes: int
    status: int
    end: str
    """`success`, `cancelled`, or the code of the error."""


class AuditLog(LineFile[AuditRecord]):
    """Appends records to a file. Raises OSError if the file cannot be opened."""

    name = "audit log"
    logger = logging.getLogger("inferstream.keys")


def open_audit_log(path: str) -> AuditLog:
    """The audit log at a path. Raises InvalidSettings."""
    try:
        return AuditLog(path)
    except OSError as error:
        raise InvalidSettings(f"{path}: {error.strerror}") from None
