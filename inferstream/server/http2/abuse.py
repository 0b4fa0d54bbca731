"""Limits on frames that cost work without making progress, such as floods of RST_STREAM, PING or SETTINGS.

A fixed count would also affect healthy clients. A long-lived streaming client sends many WINDOW_UPDATE
frames, and a client with deadlines resets many streams. So useful frames replenish the allowance.
"""

from collections.abc import Callable

from .errors import ConnectionFault, ErrorCode
from .limits import Http2Limits

Clock = Callable[[], float]

UNPERMITTED_PING_INTERVAL = 7200.0
"""Minimum seconds between PINGs without open streams, if those are not permitted (gRPC proposal A8)."""


class Allowance:
    """The number of frames of one kind that a client may still send. Time and useful frames replenish it."""

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
        """Count one frame. Raises ConnectionFault if the allowance is used up.

        `uses` is the number of useful frames on the connection so far.
        """
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
    """Strikes for PINGs that arrive too early (gRPC proposal A8). Any response clears them."""

    __slots__ = ("_clock", "_interval", "_last", "_most", "_permitted", "_sent", "_strikes")

    def __init__(self, clock: Clock, limits: Http2Limits) -> None:
        self._clock = clock
        self._interval = limits.min_ping_interval
        self._most = limits.max_ping_strikes
        self._permitted = limits.permit_pings_without_streams
        self._last = -UNPERMITTED_PING_INTERVAL
        self._sent = -1
        self._strikes = 0

    def count_ping(self, sent: int, streams: int) -> None:
        """Count a PING.

        `sent` is the server's count of response writes (`Sender.sent`). Raises ConnectionFault if the client
        has too many strikes.
        """
        if self._most is None:
            return
        now = self._clock()
        interval = self._interval if streams or self._permitted else UNPERMITTED_PING_INTERVAL
        if sent != self._sent:
            self._strikes = 0
        elif now - self._last < interval:
            self._strikes += 1
            if self._strikes > self._most:
                # With this reason, gRPC clients reduce their PING rate.
                raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too_many_pings")
        self._sent = sent
        self._last = now
