"""Shares of the principals in one model: what each has used, in tokens, and so whose turn it is.

It is a deficit round robin with a quantum of one token that omits the rounds in which nobody has enough for a turn: the
turn is that of the flow that has used the least, and the one that had it longest ago among equals.
"""

from collections import OrderedDict, defaultdict
from operator import attrgetter, itemgetter
from typing import Any, Generic, TypeVar

from inferstream import Settings
from inferstream.ext.calls import Call, CallValue, Turns

from ..keys.access_control import names_principals

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

    def enter(self, shares: "Shares", priority: int) -> Flow:
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


class ShareOfCall(CallValue[Share]):
    """The share of each call that a principal makes, in all processes."""

    def pack(self, value: Share) -> tuple[str, int]:
        return value.name, value.rank

    def unpack(self, packed: tuple[str, int]) -> Share:
        return Share(*packed)

    def inherit(self, value: Share, call: Call) -> Share:
        return Share(call.principal or "" if call.merged else value.name, value.rank)

    def end(self, value: Share, tokens: int) -> None:
        value.end(tokens)


SHARE = ShareOfCall("share")


def share_of(call: Call) -> Share:
    """The share of a call. One without a principal belongs to those without."""
    try:
        share: Share = call.values[SHARE]
    except (AttributeError, KeyError):
        share = Share("")
        SHARE.set(call, share)
    return share


Waiter = TypeVar("Waiter")

Arrival = tuple[float, Share]
"""When a call came, and what it is charged to."""

HIGHEST, LOWEST = 1, 9
"""Priorities; that of a call is 0 until it is known."""

_used, _due = attrgetter("used"), itemgetter(0)


class FairQueue(Generic[Waiter]):
    """A queue that shares the turns of each priority between principals, by the tokens that they use.

    The rank of a call orders it among those of its principal, as a priority does.
    """

    def __init__(self, aging: float, shares: "Shares") -> None:
        self._aging = aging
        self.length = 0
        self._shares = shares
        self._rounds: list[dict[Flow, dict[int, OrderedDict[Waiter, Arrival]]]] = [
            {} for _ in range(LOWEST + 1)
        ]
        """The waiting calls of each flow by their ranks, in the order of the next round."""

    def __len__(self) -> int:
        return self.length

    def add(self, turn: Waiter, call: Call, now: float) -> None:
        share, priority = share_of(call), call.priority
        flow = share.enter(self._shares, priority)
        flow.waiting += 1
        ranks = self._rounds[priority].setdefault(flow, {})
        ranks.setdefault(share.rank or priority, OrderedDict())[turn] = now, share
        self.length += 1

    def remove(self, turn: Waiter, call: Call) -> None:
        share, priority = share_of(call), call.priority
        flow, rank = share.enter(self._shares, priority), share.rank or priority
        if turn in self._rounds[priority].get(flow, {}).get(rank, ()):
            self._take(priority, flow, rank, turn)

    def pop(self) -> Waiter:
        turns = [(each, min(flows, key=_used)) for each, flows in enumerate(self._rounds) if flows]
        _, rank, priority, flow = min(((*self._offer(*turn), *turn) for turn in turns), key=_due)
        flows = self._rounds[priority]
        turn = next(iter(flows[flow][rank]))
        self._take(priority, flow, rank, turn).begin()
        if flow in flows:
            flows[flow] = flows.pop(flow)
        return turn

    def _offer(self, priority: int, flow: Flow) -> tuple[float, int]:
        """When the next call of a flow would have its turn by its priority alone, and its rank."""
        ranks = self._rounds[priority][flow]
        due, rank = min(
            (next(iter(calls.values()))[0] + self._aging * rank, rank) for rank, calls in ranks.items()
        )
        return due + self._aging * (max(priority, HIGHEST) - rank), rank

    def _take(self, priority: int, flow: Flow, rank: int, turn: Waiter) -> Share:
        flows = self._rounds[priority]
        ranks = flows[flow]
        share = ranks[rank].pop(turn)[1]
        if not ranks[rank]:
            del ranks[rank]
        if not ranks:
            del flows[flow]
        flow.waiting -= 1
        self.length -= 1
        return share


class Shares(Turns):
    """Turns of one model in this process. Its queues have the lanes in common."""

    def __init__(self) -> None:
        self.lanes: dict[int, Lane] = defaultdict(Lane)
        """By priority."""

    @classmethod
    def is_on(cls, settings: Settings) -> bool:
        return names_principals(settings)

    @staticmethod
    def charge(call: Call, name: str) -> None:
        SHARE.set(call, Share(name))

    def queue(self, aging: float) -> FairQueue[Any]:
        return FairQueue(aging, self)

    def start(self, call: Call) -> None:
        """Charge a call that need not wait. One that had to wait is charged already."""
        share = share_of(call)
        if not share.charged:
            share.enter(self, call.priority)
            share.begin()

    def settle(self, call: Call, tokens: int) -> None:
        share_of(call).settle(tokens)

    def flow(self, name: str, priority: int) -> Flow:
        lane = self.lanes[priority]
        flow = lane.flows.get(name)
        if flow is None:
            if len(lane.flows) == MOST:
                lane.flows.clear()
            flow = lane.flows[name] = Flow(lane)
        return flow


def shared_priority(asked: int, granted: int, default: int) -> int:
    """The priority of a call against those of other principals: no better than `granted`, or than the model's default.

    Nor is it worse than both: a principal that spreads its calls over priorities would have a share in each.
    """
    best = granted or default
    return max(min(asked, max(default, best)), best)
