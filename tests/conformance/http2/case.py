"""A row of a table: what is sent, and the reactions that follow."""

from collections.abc import Callable
from typing import NamedTuple

from .conversation import Conversation
from .reactions import Expectation

Sent = bytes | Callable[[dict[int, int]], bytes]
"""Bytes to send, or what makes them of the server's settings."""

Step = Sent | Expectation


class Case(NamedTuple):
    """A row of a table: the section, what is sent, and the steps."""

    section: str
    what: str
    steps: tuple[Step, ...]
    settings: tuple[tuple[int, int], ...] | None = ()
    """What the client's SETTINGS say; None where the steps have the preface too."""

    def run(self, conversation: Conversation) -> None:
        if self.settings is not None:
            conversation.open(*self.settings)
        for step in self.steps:
            if isinstance(step, bytes):
                conversation.send(step)
            elif callable(step):
                conversation.send(step(conversation.settings))
            else:
                step.check(conversation)


def case(section: str, what: str, *steps: Step, settings: tuple[tuple[int, int], ...] | None = ()) -> Case:
    return Case(section, what, steps, settings)
