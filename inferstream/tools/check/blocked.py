"""Code of models that does not return: threads that are in it, and generators that have not ended."""

import gc
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from types import AsyncGeneratorType, CodeType, FrameType, GeneratorType

NOT_MODELS = (
    str(Path(__file__).parents[2]),
    sysconfig.get_path("stdlib"),
    sysconfig.get_path("purelib"),
    sys.argv[0] or "<",
    "<",
)
"""Where no code of a model is: this package, what is installed, the command, and what is in no file."""


def begun() -> dict[int, object]:
    """The generators of code that is neither ours nor installed, and that have begun and not ended, by their ids."""
    return {id(each): each for each in gc.get_objects() if _is_open(each)}


def _is_open(generator: object) -> bool:
    if isinstance(generator, GeneratorType):
        frame, code = generator.gi_frame, generator.gi_code
    elif isinstance(generator, AsyncGeneratorType):
        frame, code = generator.ag_frame, generator.ag_code
    else:
        return False
    return frame is not None and is_of_models(code)


def is_of_models(code: CodeType) -> bool:
    """Whether code is of a model: neither ours, nor installed, nor the command that was started."""
    return not code.co_filename.startswith(NOT_MODELS)


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
