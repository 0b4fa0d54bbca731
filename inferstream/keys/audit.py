"""The audit log: one JSON line for each call, without contents."""

import logging

import msgspec

from inferstream import Settings
from inferstream.ext.telemetry import LineFile
from inferstream.plugins.keys.settings import KeysSettings

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


def has_audit_log(settings: Settings) -> bool:
    """Whether a server records what clients do."""
    return bool(settings.section(KeysSettings).audit_log)


def open_audit_log(settings: Settings) -> AuditLog | None:
    """The audit log of a server, if the settings name one. Raises InvalidSettings."""
    path = settings.section(KeysSettings).audit_log
    try:
        return AuditLog(path) if path else None
    except OSError as error:
        raise InvalidSettings(f"{path}: {error.strerror}") from None
