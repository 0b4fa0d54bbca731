"""X-Request-Id: the id that identifies a request in the logs of clients, proxies and servers."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from ..context import request_id_var
from ..dataplane.call import new_id
from ..settings import Settings
from ..telemetry.masks import PREFIX

NAME = "x-request-id"
HEADER = NAME.encode()

MAX_ID_BYTES = 128
"""The maximum length of a client's request id, in bytes."""

_WELL_FORMED = re.compile(rb"[\w.:/+=@,;-]+")
"""Excludes spaces, brackets and quotes, because an id in a log line must not look like another field."""

_KEY = PREFIX.encode()
"""The prefix of API keys, which must not appear in logs."""


class RequestIds(NamedTuple):
    """The policy for request ids: the id that the client sends or, if `every` is set, a generated one."""

    every: bool = False

    @classmethod
    def of(cls, settings: Settings) -> "RequestIds":
        return cls(settings.request_ids == "always")

    def choose_from_headers(self, headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
        """Return the request id for these headers, or None."""
        sent = None
        for name, value in headers:  # the last of repeated headers
            if name == HEADER:
                sent = value
        return None if sent is None and not self.every else self.choose_id(sent)

    def choose_id(self, sent: bytes | None) -> bytes | None:
        """Return the id of a request, or None. `sent` is the id from the client, if any.

        A malformed id is replaced by a new one.
        """
        if sent is None:
            return new_id().encode() if self.every else None
        if len(sent) <= MAX_ID_BYTES and _WELL_FORMED.fullmatch(sent) and _KEY not in sent:
            return sent
        return new_id().encode()


def set_request_id(request_id: bytes) -> None:
    """Set the id of the request that this task serves, for log lines and model code."""
    request_id_var.set(request_id.decode("latin-1"))
