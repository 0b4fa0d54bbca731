"""Settings of the garbage collector: few runs, and none over permanent objects."""

import gc

YOUNG = 5_000
"""New objects after which the collector runs.

Forty requests in progress reach Python's default of 700. Then the collector scans each of them repeatedly: 64 batched
callers cost 145 µs each in process with 700, and 136 with this number, as without a collector. Requests leave no
garbage, but models may leave large objects, so the number is not higher.
"""


def settle() -> None:
    """Exclude all present objects from later collections."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG)
