"""Interfaces for scheduling policies, which determine the order of waiting calls."""

from typing import Any, Protocol, TypeVar

from ..extensions.entries import TURNS
from ..extensions.loading import load_group
from ..settings import Settings
from .call import Call

Waiter = TypeVar("Waiter")


class WaitingCalls(Protocol[Waiter]):
    """A queue of waiting calls. When `pop` returns the object (`turn`) of a call, the server resumes it."""

    length: int

    def __len__(self) -> int: ...

    def add(self, turn: Waiter, call: Call, now: float) -> None:
        """Add a call. `now` is on the event loop's clock."""

    def remove(self, turn: Waiter, call: Call) -> None:
        """Remove a call, if it is still waiting."""

    def pop(self) -> Waiter:
        """Remove and return the next entry."""


class Turns(Protocol):
    """The scheduling policy for a model's queues in one process.

    The default is first come, first served within each priority.
    """

    @classmethod
    def is_on(cls, settings: Settings) -> bool:
        """Whether the settings enable this policy. Runs in the server process."""

    @staticmethod
    def charge(call: Call, name: str) -> None:
        """Schedule a call without a client as a call of `name`, which is charged for its tokens."""

    def queue(self, aging: float) -> WaitingCalls[Any]:
        """Create a queue. `aging` is the setting `priority_aging`, in seconds."""

    def start(self, call: Call) -> None:
        """Called when a call starts, whether or not it had to wait."""

    def settle(self, call: Call, tokens: int) -> None:
        """Called when one request of a bidirectional stream has used `tokens` tokens."""


def find_turns(settings: Settings) -> str:
    """Return the policy class that the settings enable, as `module:object`, or an empty string."""
    classes = (plugin.value for plugin, turns in load_group(TURNS, settings.strict) if turns.is_on(settings))
    return next(classes, "")
