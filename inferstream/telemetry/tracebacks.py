"""Tracebacks without the frames of the server, for the person who wrote the model."""

import asyncio
import concurrent.futures
import importlib
import importlib.util
import inspect
import os
import threading
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import InferstreamError

PACKAGES = ("fastapi", "grpc", "pydantic", "pydantic_core", "starlette", "typer", "uvicorn", "uvloop")
"""Packages whose frames tell nothing of a model, beside our own and the library's machinery."""

HINT = "--debug shows them"


class RaisedElsewhere(Exception):
    """An exception of another process, as the text of its traceback."""


def explained(error: BaseException) -> str:
    """What its author needs of a failure beside the message: the exception with the frames of their code."""
    cause = error.__cause__
    if isinstance(cause, RaisedElsewhere):
        return str(cause)
    if notes := getattr(error, "__notes__", None):
        return "\n".join(notes)
    if cause is None or (cause.__traceback__ is not None and not passed_own_code(cause)):
        return ""
    return _cut_text(cause)[0]


def own_frames(error: BaseException) -> str:
    """The traceback of an error and of its causes, without frames of the server.

    An error without any frame of the user keeps all, unless it says itself where the fault is, as one of syntax does.
    One of the server's own errors says all in its message, so it is shown alone where no code of the user took part.
    The last line gives the number of frames left out.
    """
    text, left_out = _cut_text(error)
    if not left_out:
        return text
    frames = "1 frame" if left_out == 1 else f"{left_out} frames"
    return f"{text}\n{frames} of the server left out; {HINT}"


def _cut_text(error: BaseException) -> tuple[str, int]:
    """The traceback, and the number of frames left out of it."""
    if isinstance(error, RaisedElsewhere):
        return str(error), 0
    whole = traceback.TracebackException.from_exception(error)
    if isinstance(error, InferstreamError) and not any(map(_own, _chain(whole))):
        left_out = sum(len(each.stack) for each in _chain(whole))
        text = "".join(whole.format_exception_only()).rstrip("\n")
    else:
        left_out = sum(map(_cut, _chain(whole)))
        text = "".join(whole.format()).rstrip("\n")
    return text, left_out


def passed_own_code(error: BaseException) -> bool:
    """Whether code of the user raised an error or called what raised it."""
    return any(not is_of_server(frame.filename) for frame in traceback.extract_tb(error.__traceback__))


def located(function: Callable[..., Any]) -> str:
    """File, line and name of a function, as a traceback writes them; empty for one in C."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return (
        "" if code is None else f'  File "{code.co_filename}", line {code.co_firstlineno}, in {code.co_name}'
    )


def _chain(error: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    """The error, its causes, its contexts, and the errors of groups."""
    waiting = [error]
    while waiting:
        each = waiting.pop()
        yield each
        waiting += [
            other
            for other in (each.__cause__, each.__context__, *(each.exceptions or ()))
            if other is not None
        ]


def _own(error: traceback.TracebackException) -> list[traceback.FrameSummary]:
    return [frame for frame in error.stack if not is_of_server(frame.filename)]


def _cut(error: traceback.TracebackException) -> int:
    """Remove the frames of the server; returns their number."""
    own = _own(error)
    if not own and not hasattr(error, "lineno"):  # which errors of syntax have, with the user's file
        return 0
    left_out = len(error.stack) - len(own)
    error.stack = traceback.StackSummary.from_list(own)
    return left_out


def is_of_server(file: str) -> bool:
    """Whether a file is of the server, of the libraries under it, or of Python's machinery."""
    return file.startswith(_places())


@cache
def _places() -> tuple[str, ...]:
    places = ["<frozen importlib", *(_folder(module) for module in (asyncio, concurrent.futures, importlib))]
    places += [threading.__file__, f"{Path(__file__).parents[1]}{os.sep}"]
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        places += [f"{place}{os.sep}" for place in (spec.submodule_search_locations or ())] if spec else []
    return tuple(places)


def _folder(module: object) -> str:
    return f"{Path(str(getattr(module, '__file__', ''))).parent}{os.sep}"


def one_line(error: BaseException) -> str:
    """The class of an error, and the first line of its text."""
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first}".rstrip(": ")
