"""The access log of all front ends, for those who follow it at one of them."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...dataplane.serving import Serving
from ...telemetry.access import AccessRecord
from . import frames

if TYPE_CHECKING:
    from .follower_process import FollowerProcess

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
    """Lets the front ends send records while somebody follows the log at another one. The leader passes them on."""

    def __init__(self, leader: Serving, followers: "list[FollowerProcess]") -> None:
        self._leader = leader
        self._followers = followers
        self._wanting: set[FollowerProcess | None] = set()
        """The front ends where somebody follows the log; None is the leader."""
        self._sending: set[FollowerProcess | None] = set()
        self._own = RecordSender(lambda frame: self.passed(None, frame))
        leader.followers.changed = lambda on: self.wanted(None, on)

    def wanted(self, who: "FollowerProcess | None", on: bool) -> None:
        """The first one follows the log at a front end, or the last one has left."""
        (self._wanting.add if on else self._wanting.discard)(who)
        self.update()

    def left(self, follower: "FollowerProcess") -> None:
        """A front end has ended."""
        self._sending.discard(follower)
        self.wanted(follower, False)

    def update(self) -> None:
        """Tell each front end whether to send its records, if that has changed or the front end is new."""
        for who in (None, *self._followers):
            wanted = not self._wanting.issubset({who})
            if wanted == (who in self._sending):
                continue
            (self._sending.add if wanted else self._sending.discard)(who)
            if who is not None:
                who.send(frames.Follow(wanted))
            elif wanted:
                self._leader.lines.add(self._own.put)
            else:
                self._leader.lines.remove(self._own.put)

    def passed(self, origin: "FollowerProcess | None", frame: frames.Records) -> None:
        """Give the records of one front end to those who follow at another."""
        for who in self._wanting - {origin}:
            if who is None:
                self._leader.followers.put_foreign(frame.records, frame.dropped)
            else:
                who.send(frame)
