"""The audit log: one JSON line per operation, without request contents."""

import logging

import msgspec

from inferstream import Settings
from inferstream.errors import InvalidSettings
from inferstream.ext.telemetry import LineFile

from .settings import KeysSettings


class AuditRecord(msgspec.Struct, gc=False):
    """One operation: the client, the model, the usage and the outcome. `time` is in seconds since 1970."""

    time: float
    principal: str | None
    """None, like `key`, if the client sent no valid key."""
    key: str | None
    peer: str
    """The client's address, which may be from the headers of a trusted proxy."""
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
    """`success`, `cancelled` or an error code."""


class AuditLog(LineFile[AuditRecord]):
    """Appends records to a file. Raises OSError if the file cannot be opened."""

    name = "audit log"
    logger = logging.getLogger("inferstream.keys")


def has_audit_log(settings: Settings) -> bool:
    """Whether the settings name an audit log."""
    return bool(settings.section(KeysSettings).audit_log)


def open_audit_log(settings: Settings) -> AuditLog | None:
    """Open the audit log, or return None if the settings name none. Raises InvalidSettings."""
    path = settings.section(KeysSettings).audit_log
    try:
        return AuditLog(path) if path else None
    except OSError as error:
        raise InvalidSettings(f"{path}: {error.strerror}") from None
