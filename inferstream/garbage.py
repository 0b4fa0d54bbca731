"""When the garbage collector looks at what: not often, and never at what stays."""

import gc

YOUNG = 5_000
"""New objects from which the collector looks at them.

Forty requests in progress are Python's 700, so each was looked at again and again: 64 batched callers cost
145 µs each in process with these and 136 with this many, as without any collector. Requests leave nothing to
it, but models may, and theirs may be large: so not more.
"""


def settle() -> None:
    """What is loaded now stays, and need not be looked at again with every request's leavings."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG)
