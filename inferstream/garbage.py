"""Settings of the garbage collector: few runs, and none over permanent objects."""

import asyncio
import gc

YOUNG = 5_000
"""New objects after which the collector runs.

Forty requests in progress reach Python's default of 700. Then the collector scans each of them repeatedly: 64 batched
callers cost 145 µs each in process with 700, and 136 with this number, as without a collector. Requests leave no
garbage, but models may leave large objects, so the number is not higher.
"""


SOON = 1.0
"""Seconds after which a model's objects are collected, because what has unloaded it still refers to them."""

_settled = False
_due: asyncio.AbstractEventLoop | None = None
"""The event loop that will collect."""
_again = False
"""Whether a model was unloaded since then, so that one collection may come too early for it."""


def settle() -> None:
    """Exclude all present objects from later collections."""
    global _settled
    _settled = True
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG)


def settle_soon() -> None:
    """Collect what models leave that are unloaded now, also where `settle` has excluded it.

    A model and the stages around it refer to each other. Without a collection their memory stays for as long as the
    process makes few other objects. In a program of others, which has not called `settle`, nothing happens.
    """
    global _due, _again
    loop = asyncio.get_running_loop()
    _again = _due is loop
    if _settled and not _again:
        _due = loop
        loop.call_later(SOON, _collect)


def _collect() -> None:
    global _due
    _due = None
    if _again:
        settle_soon()
    gc.unfreeze()
    settle()
