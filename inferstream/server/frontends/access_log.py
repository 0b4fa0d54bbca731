"""The access log of all front-end processes, for subscribers connected to any one of them."""

import asyncio
from collections.abc import Callable

from ...dataplane.serving import Serving
from ...telemetry.access import AccessRecord
from . import frames
from .process import FrontEndProcess

GATHERING = 0.1
"""Seconds during which records are collected into one frame."""

MAX_RECORDS = 1024
"""The maximum number of records per frame. Additional records are dropped and counted."""


class RecordSender:
    """Sends the access records of this process to another process."""

    def __init__(self, send: Callable[[frames.Records], object]) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._records: list[AccessRecord] = []
        self._dropped = 0

    def put(self, record: AccessRecord) -> None:
        if len(self._records) >= MAX_RECORDS:
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
    """Makes front ends send their records while another front end has a subscriber.

    The supervisor relays the records.
    """

    def __init__(self, supervisor: Serving, front_ends: list[FrontEndProcess]) -> None:
        self._supervisor = supervisor
        self._front_ends = front_ends
        self._wanting: set[FrontEndProcess | None] = set()
        """The front ends that have subscribers. None stands for the supervisor."""
        self._sending: set[FrontEndProcess | None] = set()
        self._own = RecordSender(lambda frame: self.relay(None, frame))
        supervisor.subscribers.changed = lambda on: self.set_subscription(None, on)

    def set_subscription(self, who: FrontEndProcess | None, on: bool) -> None:
        """Record that a front end gained its first subscriber or lost its last one."""
        (self._wanting.add if on else self._wanting.discard)(who)
        self.update()

    def forget(self, front_end: FrontEndProcess) -> None:
        """Forget a front end that has exited."""
        self._sending.discard(front_end)
        self.set_subscription(front_end, False)

    def update(self) -> None:
        """Send `SendRecords` to each front end that has to start or stop sending its records."""
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

    def relay(self, origin: FrontEndProcess | None, frame: frames.Records) -> None:
        """Relay the records of one front end to the subscribers of the others."""
        for who in self._wanting - {origin}:
            if who is None:
                self._supervisor.subscribers.put_foreign(frame.records, frame.dropped)
            else:
                who.send(frame)
