"""Bounds on frames that cost the server work and bring it none: floods of resets, PINGs, SETTINGS and the like.

A count that a healthy client never reaches cannot be a number alone: a client that streams all day sends many
WINDOW_UPDATEs, and one with deadlines resets many streams. So useful frames earn what such frames spend.
"""

from collections.abc import Callable

from .errors import ConnectionFault, ErrorCode
from .limits import Http2Limits

Clock = Callable[[], float]

UNPERMITTED_PING_INTERVAL = 7200.0
"""Seconds between PINGs of a client without requests, where those are not permitted (gRPC's proposal A8)."""


class Allowance:
    """How many frames of one kind a client may still send. Each second and each useful frame add to it."""

    __slots__ = ("_burst", "_clock", "_left", "_per_second", "_per_use", "_reason", "_since", "_uses")

    def __init__(self, clock: Clock, reason: str, burst: int, per_second: float, per_use: float) -> None:
        self._clock = clock
        self._reason = reason
        self._burst = burst
        self._per_second = per_second
        self._per_use = per_use
        self._left = float(burst)
        self._since = clock()
        self._uses = 0

    def spend(self, uses: int) -> None:
        """Count one frame; `uses` is the number of the connection's useful frames so far. Raises ConnectionFault."""
        self._left -= 1
        if self._left > 0:
            return
        now = self._clock()
        earned = (now - self._since) * self._per_second + (uses - self._uses) * self._per_use
        self._since, self._uses = now, uses
        self._left = min(self._left + earned, self._burst)
        if self._left <= 0:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, self._reason)


class Pings:
    """Strikes for PINGs that come too early (gRPC's proposal A8). Whatever the server sends clears them."""

    __slots__ = ("_clock", "_interval", "_last", "_most", "_permitted", "_sent", "_strikes")

    def __init__(self, clock: Clock, limits: Http2Limits) -> None:
        self._clock = clock
        self._interval = limits.min_ping_interval
        self._most = limits.max_ping_strikes
        self._permitted = limits.permit_pings_without_streams
        self._last = -UNPERMITTED_PING_INTERVAL
        self._sent = -1
        self._strikes = 0

    def received(self, sent: int, streams: int) -> None:
        """Count a PING; `sent` is the number of the server's useful frames so far. Raises ConnectionFault."""
        if self._most is None:
            return
        now = self._clock()
        interval = self._interval if streams or self._permitted else UNPERMITTED_PING_INTERVAL
        if sent != self._sent:
            self._strikes = 0
        elif now - self._last < interval:
            self._strikes += 1
            if self._strikes > self._most:
                # The text by which clients of gRPC know that they must send PINGs less often.
                raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too_many_pings")
        self._sent = sent
        self._last = now
