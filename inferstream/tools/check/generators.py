"""Generators of models that have not ended: the server itself does not wait for each `finally`."""

import gc
import sys
import sysconfig
from pathlib import Path
from types import AsyncGeneratorType, CodeType, GeneratorType

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
