"""Garbage collector settings: infrequent collections that skip permanent objects."""

import asyncio
import gc

YOUNG = 5_000
"""The threshold of the youngest generation, in objects.

As few as 40 requests in progress reach Python's default of 700, and their objects are then scanned
repeatedly. With 64 callers of a batched model in process, a call takes 145 µs with 700 and 136 µs with this
threshold, the same as without a collector. Requests create no garbage, but models may create large objects,
so the threshold is not higher.
"""


SOON = 1.0
"""The delay of a collection, in seconds.

It is needed because the code that unloads a model refers to the model until the unload is complete.
"""

_settled = False
_due: asyncio.AbstractEventLoop | None = None
"""The event loop that a collection is scheduled on."""
_again = False
"""Whether another model was unloaded after the collection was scheduled, so that one more is needed."""


def freeze_objects() -> None:
    """Collect garbage, and exclude all remaining objects from later collections."""
    global _settled
    _settled = True
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG)


def schedule_collection() -> None:
    """Schedule a collection of unloaded models, including objects that `settle` has excluded.

    A model and the stages around it refer to each other, so only the collector can free them, and without
    this call it might not run for a long time. Does nothing unless `settle` was called, for example in a
    program that embeds the server.
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
        schedule_collection()
    gc.unfreeze()
    freeze_objects()
