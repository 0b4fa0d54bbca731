"""The number of calls of a model that may run at once, and the queues of those that wait."""

from collections import OrderedDict
from collections.abc import Callable
from operator import attrgetter, itemgetter
from typing import Generic, Self, TypeVar

from .call import HIGHEST, LOWEST, Call
from .shares import Flow, Share, Shares


class Slots:
    """A number of calls that may run at once. It may change while the model serves."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._watchers: list[Callable[[int], None]] = []

    def watch(self, resized: Callable[[int], None]) -> None:
        """Call `resized` with each new number."""
        self._watchers.append(resized)

    def resize(self, count: int) -> None:
        if count != self.count:
            self.count = count
            for resized in self._watchers:
                resized(count)

    def through(self, derive: Callable[[int], int]) -> Self:
        """Slots whose number follows from this one."""
        derived = type(self)(derive(self.count))
        self.watch(lambda count: derived.resize(derive(count)))
        return derived


Waiter = TypeVar("Waiter")
Value = TypeVar("Value")


class Queue(Generic[Waiter]):
    """Each step down in priority counts as `aging` seconds of later arrival.

    A call overtakes less urgent calls that arrived up to so many seconds earlier. The least urgent call still gets its
    turn: no call that arrives after this head start overtakes it.
    """

    def __init__(self, aging: float) -> None:
        self._aging = aging
        self._lanes: list[OrderedDict[Waiter, float]] = [OrderedDict() for _ in range(LOWEST + 1)]
        self.length = 0
        """Waiting calls, for callers that ask so often that `len` is too slow."""

    def __len__(self) -> int:
        return self.length

    def add(self, turn: Waiter, call: Call, now: float) -> None:
        priority = call.priority
        self._lanes[priority][turn] = now + self._aging * max(priority, HIGHEST)
        self.length += 1

    def remove(self, turn: Waiter, call: Call) -> None:
        if self._lanes[call.priority].pop(turn, None) is not None:
            self.length -= 1

    def pop(self) -> Waiter:
        lane = min((lane for lane in self._lanes if lane), key=_first)
        self.length -= 1
        return lane.popitem(last=False)[0]


def _first(lane: OrderedDict[Waiter, Value]) -> Value:
    return next(iter(lane.values()))


Arrival = tuple[float, Share]
"""When a call came, and what it is charged to."""

_used, _due = attrgetter("used"), itemgetter(0)


class FairQueue(Queue[Waiter]):
    """A queue that shares the turns of each priority between principals, by the tokens that they use.

    The rank of a call orders it among those of its principal, as a priority does.
    """

    def __init__(self, aging: float, shares: Shares) -> None:
        super().__init__(aging)
        self._shares = shares
        self._rounds: list[dict[Flow, dict[int, OrderedDict[Waiter, Arrival]]]] = [
            {} for _ in range(LOWEST + 1)
        ]
        """The waiting calls of each flow by their ranks, in the order of the next round."""

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
        due, rank = min((_first(calls)[0] + self._aging * rank, rank) for rank, calls in ranks.items())
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


def share_of(call: Call) -> Share:
    """The share of a call. One without a principal belongs to those without."""
    try:
        return call.share
    except AttributeError:
        share = call.share = Share("")
        return share
