"""Shares of the principals in one model: what each has used, in tokens, and so whose turn it is.

It is a deficit round robin with a quantum of one token that omits the rounds in which nobody has enough for a turn: the
turn is that of the flow that has used the least, and the one that had it longest ago among equals.
"""

from collections import defaultdict

MOST = 4096
"""Principals of a priority that are known at once. Beyond, all start anew."""


class Flow:
    """The calls of one principal in one priority. One that comes back counts as if it had used `virtual_time`."""

    __slots__ = ("lane", "used", "usual", "waiting")

    def __init__(self, lane: "Lane") -> None:
        self.lane = lane
        self.used = lane.virtual_time
        self.usual = 1
        """Tokens of its last call, which count for the next one until it ends."""
        self.waiting = 0
        """Its calls in queues. Without any it saves nothing for later."""


class Lane:
    """The flows of one priority."""

    __slots__ = ("flows", "virtual_time")

    def __init__(self) -> None:
        self.flows: dict[str, Flow] = {}
        self.virtual_time = 0
        """Tokens that the flow whose call began last had used before."""


class Shares:
    """The lanes of one model in this process, by priority. Its queues have them in common."""

    def __init__(self) -> None:
        self.lanes: dict[int, Lane] = defaultdict(Lane)

    def flow(self, name: str, priority: int) -> Flow:
        lane = self.lanes[priority]
        flow = lane.flows.get(name)
        if flow is None:
            if len(lane.flows) == MOST:
                lane.flows.clear()
            flow = lane.flows[name] = Flow(lane)
        return flow


class Share:
    """The part of one call in what the principal `name` uses."""

    __slots__ = ("_settled", "charged", "flow", "name", "rank")

    def __init__(self, name: str, rank: int = 0) -> None:
        self.name = name
        self.rank = rank
        """The priority among the calls of its principal; 0 for the priority of the call."""
        self.flow: Flow | None = None
        """None before the call is charged or waits."""
        self.charged = 0
        """Tokens of the request in progress, before it ends."""
        self._settled = 0
        """Tokens of the requests of the call that have ended."""

    def enter(self, shares: Shares, priority: int) -> Flow:
        """The flow of the call, which is about to wait."""
        flow = self.flow
        if flow is None:
            flow = self.flow = shares.flow(self.name, priority)
        if not flow.waiting and flow.used < flow.lane.virtual_time:
            flow.used = flow.lane.virtual_time
        return flow

    def begin(self) -> None:
        """Charge a request of the call, which has waited, with the usual tokens; once."""
        flow = self.flow
        if flow is not None and not self.charged:
            if flow.lane.virtual_time < flow.used:
                flow.lane.virtual_time = flow.used
            self.charged = flow.usual
            flow.used += flow.usual

    def start(self, shares: Shares, priority: int) -> None:
        """Charge a request that need not wait."""
        if not self.charged:
            self.enter(shares, priority)
            self.begin()

    def end(self, tokens: int) -> None:
        """Charge the call with its tokens, of all requests, or its last one with one, because a failure has had a turn.

        A later request of the call is charged as it begins.
        """
        flow = self.flow
        if flow is not None and self.charged:
            tokens -= self._settled
            flow.usual = tokens if tokens > 1 else 1
            flow.used += flow.usual - self.charged
            self.charged = 0
            self._settled += flow.usual

    def settle(self, tokens: int) -> None:
        """Charge a request of the call that has ended with its tokens."""
        self.end(self._settled + tokens)


def shared_priority(asked: int, granted: int, default: int) -> int:
    """The priority of a call against those of other principals: no better than `granted`, or than the model's default.

    Nor is it worse than both: a principal that spreads its calls over priorities would have a share in each.
    """
    best = granted or default
    return max(min(asked, max(default, best)), best)
