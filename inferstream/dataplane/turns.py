"""Whose turn it is among the calls that wait for a model."""

from typing import Any, Protocol, TypeVar

from ..extensions import TURNS, loaded
from ..settings import Settings
from .call import Call

Waiter = TypeVar("Waiter")


class WaitingCalls(Protocol[Waiter]):
    """A queue of calls, each with the object that gets its turn."""

    length: int

    def __len__(self) -> int: ...

    def add(self, turn: Waiter, call: Call, now: float) -> None:
        """Let a call wait. `now` is on the event loop's clock."""

    def remove(self, turn: Waiter, call: Call) -> None:
        """Let a call leave, if it still waits."""

    def pop(self) -> Waiter:
        """Take out the next one."""


class Turns(Protocol):
    """The turns in the queues of one model in one process. The default: first come, first served by priority."""

    @classmethod
    def is_on(cls, settings: Settings) -> bool:
        """Whether the models of a server have it. Runs in the process of the server."""

    @staticmethod
    def charge(call: Call, name: str) -> None:
        """Give a call that no client has made the turns of `name`, which is charged with its tokens."""

    def queue(self, aging: float) -> WaitingCalls[Any]:
        """A new queue. `aging` is the setting `priority_aging`, in seconds."""

    def start(self, call: Call) -> None:
        """Called with each call that starts, which may have waited."""

    def settle(self, call: Call, tokens: int) -> None:
        """Called when one request of a bidirectional stream has used so many tokens."""


def find_turns(settings: Settings) -> str:
    """The class of turns that these settings turn on, as `module:object`; empty for none."""
    classes = (plugin.value for plugin, turns in loaded(TURNS, settings.strict) if turns.is_on(settings))
    return next(classes, "")
