"""Detection of model code that does not return: running threads and open generators."""

import gc
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from types import AsyncGeneratorType, CodeType, FrameType, GeneratorType

import inferstream

NOT_MODELS = (
    str(Path(str(inferstream.__file__)).parent),
    sysconfig.get_path("stdlib"),
    sysconfig.get_path("purelib"),
    sys.argv[0] or "<",
    "<",
)
"""Prefixes of files without model code: this package, installed packages, the command, and generated code."""


def find_open_generators() -> dict[int, object]:
    """Return the generators of model code that have started and not finished, by id."""
    return {id(each): each for each in gc.get_objects() if _is_open(each)}


def _is_open(generator: object) -> bool:
    if isinstance(generator, GeneratorType):
        frame, code = generator.gi_frame, generator.gi_code
    elif isinstance(generator, AsyncGeneratorType):
        frame, code = generator.ag_frame, generator.ag_code
    else:
        return False
    return frame is not None and is_model_code(code)


def is_model_code(code: CodeType) -> bool:
    """Whether code belongs to a model, and not to this package, an installed package or the command."""
    return not code.co_filename.startswith(NOT_MODELS)


def find_positions() -> dict[int, str]:
    """Return the current position of each thread that runs model code, as `file:line`."""
    seen = {thread: _find_position(frame) for thread, frame in sys._current_frames().items()}
    return {thread: place for thread, place in seen.items() if place}


def _find_position(frame: FrameType | None) -> str:
    while frame is not None and not is_model_code(frame.f_code):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


@contextmanager
def watch_block(seconds: float, held: Callable[[], object]) -> Iterator[None]:
    """Call `held` in a thread after `seconds`. An asyncio timeout cannot interrupt a blocked event loop."""
    timer = Timer(seconds, held)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
