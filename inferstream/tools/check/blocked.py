"""Code of models that does not return: the threads that are in it, and where."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from types import FrameType

from .generators import is_of_models


def places() -> dict[int, str]:
    """Where each thread is that runs code of a model now, as `file:line`."""
    seen = {thread: _place(frame) for thread, frame in sys._current_frames().items()}
    return {thread: place for thread, place in seen.items() if place}


def _place(frame: FrameType | None) -> str:
    while frame is not None and not is_of_models(frame.f_code):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


@contextmanager
def watched(seconds: float, held: Callable[[], object]) -> Iterator[None]:
    """Call `held` in a thread if the block takes longer: an event loop that a model holds tells nothing."""
    timer = Timer(seconds, held)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
