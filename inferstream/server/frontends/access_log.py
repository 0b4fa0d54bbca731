"""The access log of all front ends, for subscribers at one of them."""

import asyncio
from collections.abc import Callable

from ...dataplane.serving import Serving
from ...telemetry.access import AccessRecord
from . import frames
from .process import FrontEndProcess

GATHERING = 0.1
"""Seconds that records are gathered for one frame."""

MOST = 1024
"""Records of one frame. Further ones are dropped and counted."""


class RecordSender:
    """Sends the records of this process to another one."""

    def __init__(self, send: Callable[[frames.Records], object]) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._records: list[AccessRecord] = []
        self._dropped = 0

    def put(self, record: AccessRecord) -> None:
        if len(self._records) >= MOST:
            self._dropped += 1
            return
        if not self._records:
            self._loop.call_later(GATHERING, self._flush)
        self._records.append(record)

    def _flush(self) -> None:
        records, dropped = self._records, self._dropped
        self._records, self._dropped = [], 0
        self._send(frames.Records(records, dropped))


class SharedLog:
    """Lets the front ends send records while another one has a subscriber. The supervisor passes them on."""

    def __init__(self, supervisor: Serving, front_ends: list[FrontEndProcess]) -> None:
        self._supervisor = supervisor
        self._front_ends = front_ends
        self._wanting: set[FrontEndProcess | None] = set()
        """The front ends with subscribers; None is the supervisor."""
        self._sending: set[FrontEndProcess | None] = set()
        self._own = RecordSender(lambda frame: self.passed(None, frame))
        supervisor.subscribers.changed = lambda on: self.wanted(None, on)

    def wanted(self, who: FrontEndProcess | None, on: bool) -> None:
        """A front end has its first subscriber, or the last one has left."""
        (self._wanting.add if on else self._wanting.discard)(who)
        self.update()

    def left(self, front_end: FrontEndProcess) -> None:
        """A front end has ended."""
        self._sending.discard(front_end)
        self.wanted(front_end, False)

    def update(self) -> None:
        """Tell each front end whether to send its records, if that has changed or the front end is new."""
        for who in (None, *self._front_ends):
            wanted = not self._wanting.issubset({who})
            if wanted == (who in self._sending):
                continue
            (self._sending.add if wanted else self._sending.discard)(who)
            if who is not None:
                who.send(frames.SendRecords(wanted))
            elif wanted:
                self._supervisor.lines.add(self._own.put)
            else:
                self._supervisor.lines.remove(self._own.put)

    def passed(self, origin: FrontEndProcess | None, frame: frames.Records) -> None:
        """Give the records of one front end to the subscribers at others."""
        for who in self._wanting - {origin}:
            if who is None:
                self._supervisor.subscribers.put_foreign(frame.records, frame.dropped)
            else:
                who.send(frame)
