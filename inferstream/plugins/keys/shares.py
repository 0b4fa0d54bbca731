"""Fair queueing between the principals of one model, based on the tokens that each has used.

Deficit round robin with a quantum of one token. Rounds in which no flow has enough credit are skipped.
The next slot goes to the flow with the lowest usage. Among equals, it goes to the flow that was served
longest ago.
"""

from collections import OrderedDict, defaultdict
from operator import attrgetter, itemgetter
from typing import Any, Generic, TypeVar

from inferstream import Settings
from inferstream.ext.calls import Call, CallValue, Turns

from .access_control import names_principals

MAX_FLOWS = 4096
"""Maximum number of flows per priority. Beyond it, all flows of the priority are reset."""


class Flow:
    """The calls of one principal at one priority.

    Idle flows do not accumulate credit: they resume at `virtual_time`.
    """

    __slots__ = ("lane", "used", "usual", "waiting")

    def __init__(self, lane: "Lane") -> None:
        self.lane = lane
        self.used = lane.virtual_time
        self.usual = 1
        """Tokens of the flow's last request, charged as an estimate when the next one starts."""
        self.waiting = 0
        """The number of waiting calls."""


class Lane:
    """The flows of one priority."""

    __slots__ = ("flows", "virtual_time")

    def __init__(self) -> None:
        self.flows: dict[str, Flow] = {}
        self.virtual_time = 0
        """The usage of the flow whose call started last, before that call was charged."""


class Share:
    """The tokens of one call, which are charged to the principal `name`."""

    __slots__ = ("_settled", "charged", "flow", "name", "rank")

    def __init__(self, name: str, rank: int = 0) -> None:
        self.name = name
        self.rank = rank
        """The priority among the calls of the same principal. 0 means the priority of the call."""
        self.flow: Flow | None = None
        """None until the call waits or is charged."""
        self.charged = 0
        """Estimated tokens of the request in progress."""
        self._settled = 0
        """Tokens of the call's finished requests."""

    def enter(self, shares: "Shares", priority: int) -> Flow:
        """Return the flow of this call, which is about to wait."""
        flow = self.flow
        if flow is None:
            flow = self.flow = shares.flow(self.name, priority)
        if not flow.waiting and flow.used < flow.lane.virtual_time:
            flow.used = flow.lane.virtual_time
        return flow

    def begin(self) -> None:
        """Charge the flow's usual tokens for a request that starts. No effect if it is already charged."""
        flow = self.flow
        if flow is not None and not self.charged:
            if flow.lane.virtual_time < flow.used:
                flow.lane.virtual_time = flow.used
            self.charged = flow.usual
            flow.used += flow.usual

    def end(self, tokens: int) -> None:
        """Replace the estimate with the tokens of the whole call, minus its settled requests.

        Charges at least one token, because a failed request has also used a slot. A later request of the call
        is charged when it starts.
        """
        flow = self.flow
        if flow is not None and self.charged:
            tokens -= self._settled
            flow.usual = tokens if tokens > 1 else 1
            flow.used += flow.usual - self.charged
            self.charged = 0
            self._settled += flow.usual

    def settle(self, tokens: int) -> None:
        """Charge the tokens of a finished request of the call."""
        self.end(self._settled + tokens)


class ShareOfCall(CallValue[Share]):
    """The key under which a call stores its `Share`, in all processes."""

    def pack(self, value: Share) -> tuple[str, int]:
        return value.name, value.rank

    def unpack(self, packed: tuple[str, int]) -> Share:
        return Share(*packed)

    def inherit(self, value: Share, call: Call) -> Share:
        return Share(call.principal or "" if call.merged else value.name, value.rank)

    def end(self, value: Share, tokens: int) -> None:
        value.end(tokens)


SHARE = ShareOfCall("share")


def find_share(call: Call) -> Share:
    """Return the share of a call. Calls without a principal share one name."""
    try:
        share: Share = call.values[SHARE]
    except (AttributeError, KeyError):
        share = Share("")
        SHARE.set(call, share)
    return share


Waiter = TypeVar("Waiter")

Arrival = tuple[float, Share]
"""The arrival time of a call, and its share."""

HIGHEST, LOWEST = 1, 9
"""The range of priorities. The priority of a call is 0 until it is resolved."""

_used, _due = attrgetter("used"), itemgetter(0)


class FairQueue(Generic[Waiter]):
    """A queue that divides the slots of each priority fairly between principals, based on their tokens.

    The rank of a call orders it among the calls of its principal, like a priority.
    """

    def __init__(self, aging: float, shares: "Shares") -> None:
        self._aging = aging
        self.length = 0
        self._shares = shares
        self._rounds: list[dict[Flow, dict[int, OrderedDict[Waiter, Arrival]]]] = [
            {} for _ in range(LOWEST + 1)
        ]
        """Per priority, the waiting calls of each flow by rank, in the order of the next round."""

    def __len__(self) -> int:
        return self.length

    def add(self, turn: Waiter, call: Call, now: float) -> None:
        share, priority = find_share(call), call.priority
        flow = share.enter(self._shares, priority)
        flow.waiting += 1
        ranks = self._rounds[priority].setdefault(flow, {})
        ranks.setdefault(share.rank or priority, OrderedDict())[turn] = now, share
        self.length += 1

    def remove(self, turn: Waiter, call: Call) -> None:
        share, priority = find_share(call), call.priority
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
        """Return the time at which a flow's next call is due by its priority, and the rank of that call."""
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
    """The fair queues of one model in this process. All of them use the same lanes."""

    def __init__(self) -> None:
        self.lanes: dict[int, Lane] = defaultdict(Lane)
        """Lanes by priority."""

    @classmethod
    def is_on(cls, settings: Settings) -> bool:
        return names_principals(settings)

    @staticmethod
    def charge(call: Call, name: str) -> None:
        SHARE.set(call, Share(name))

    def queue(self, aging: float) -> FairQueue[Any]:
        return FairQueue(aging, self)

    def start(self, call: Call) -> None:
        """Charge a call that starts without waiting. Calls that waited are already charged."""
        share = find_share(call)
        if not share.charged:
            share.enter(self, call.priority)
            share.begin()

    def settle(self, call: Call, tokens: int) -> None:
        find_share(call).settle(tokens)

    def flow(self, name: str, priority: int) -> Flow:
        lane = self.lanes[priority]
        flow = lane.flows.get(name)
        if flow is None:
            if len(lane.flows) == MAX_FLOWS:
                lane.flows.clear()
            flow = lane.flows[name] = Flow(lane)
        return flow


def shared_priority(asked: int, granted: int, default: int) -> int:
    """Return the priority of a call relative to other principals.

    It is no better than `granted`, or than the default if `granted` is 0, and no worse than the worse of the
    two. Otherwise, a principal could spread its calls over several priorities and get a share in each.
    """
    best = granted or default
    return max(min(asked, max(default, best)), best)
