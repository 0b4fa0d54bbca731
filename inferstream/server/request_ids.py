"""X-Request-Id: the id by which a client, proxies and logs know one request."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from ..context import request_id_var
from ..dataplane.call import new_id
from ..settings import Settings
from ..telemetry.masks import PREFIX

NAME = "x-request-id"
HEADER = NAME.encode()

LONGEST = 128
"""Bytes of an id that is taken from a client."""

_WELL_FORMED = re.compile(rb"[\w.:/+=@,;-]+")
"""No space, bracket or quote: the id stands in lines of logs, where it must not look like another field."""

_KEY = PREFIX.encode()
"""How keys begin, which no log may hold."""


class RequestIds(NamedTuple):
    """Which requests have an id: those whose client sends one, or all if `every`."""

    every: bool = False

    @classmethod
    def of(cls, settings: Settings) -> "RequestIds":
        return cls(settings.request_ids == "always")

    def among(self, headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
        """The id of the request with these headers, or None."""
        sent = None
        for name, value in headers:  # of a repeated one, the last
            if name == HEADER:
                sent = value
        return None if sent is None and not self.every else self.id(sent)

    def id(self, sent: bytes | None) -> bytes | None:
        """The id of a request for which the client sent one or None. In place of a malformed one it is new."""
        if sent is None:
            return new_id().encode() if self.every else None
        if len(sent) <= LONGEST and _WELL_FORMED.fullmatch(sent) and _KEY not in sent:
            return sent
        return new_id().encode()


def enter(request_id: bytes) -> None:
    """Make it the id of the request that this task serves, for log lines and model code."""
    request_id_var.set(request_id.decode("latin-1"))
