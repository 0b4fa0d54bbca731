"""Tracebacks without the frames of the server, for model authors."""

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
"""Packages whose frames are omitted, in addition to inferstream and parts of the standard library."""

HINT = "--debug shows them"


class RaisedElsewhere(Exception):
    """An exception raised in another process. Its message is the formatted traceback."""


def explain_error(error: BaseException) -> str:
    """Return the exception behind a failure, with the frames of user code. Empty if the message suffices."""
    cause = error.__cause__
    if isinstance(cause, RaisedElsewhere):
        return str(cause)
    if notes := getattr(error, "__notes__", None):
        return "\n".join(notes)
    if cause is None or (cause.__traceback__ is not None and not involves_user_code(cause)):
        return ""
    return _format_without_server(cause)[0]


def format_own_frames(error: BaseException) -> str:
    """Return the traceback of an error and its causes, without frames of the server.

    If no frame remains, all are shown, unless the error has its own location, as a SyntaxError does. Errors
    of inferstream that did not pass through user code are shown without frames, because their message is
    sufficient. The last line states the number of omitted frames.
    """
    text, left_out = _format_without_server(error)
    if not left_out:
        return text
    frames = "1 frame" if left_out == 1 else f"{left_out} frames"
    return f"{text}\n{frames} of the server left out; {HINT}"


def _format_without_server(error: BaseException) -> tuple[str, int]:
    """Return the traceback, and the number of omitted frames."""
    if isinstance(error, RaisedElsewhere):
        return str(error), 0
    whole = traceback.TracebackException.from_exception(error)
    if isinstance(error, InferstreamError) and not any(map(_select_own_frames, _chain(whole))):
        left_out = sum(len(each.stack) for each in _chain(whole))
        text = "".join(whole.format_exception_only()).rstrip("\n")
    else:
        left_out = sum(map(_remove_server_frames, _chain(whole)))
        text = "".join(whole.format()).rstrip("\n")
    return text, left_out


def involves_user_code(error: BaseException) -> bool:
    """Whether user code raised an error, or called the code that raised it."""
    return any(not is_of_server(frame.filename) for frame in traceback.extract_tb(error.__traceback__))


def format_location(function: Callable[..., Any]) -> str:
    """Return the file, line and name of a function as in a traceback, or "" for a C function."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return (
        "" if code is None else f'  File "{code.co_filename}", line {code.co_firstlineno}, in {code.co_name}'
    )


def _chain(error: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    """Yield the error, its causes and contexts, and the errors of exception groups."""
    waiting = [error]
    while waiting:
        each = waiting.pop()
        yield each
        waiting += [
            other
            for other in (each.__cause__, each.__context__, *(each.exceptions or ()))
            if other is not None
        ]


def _select_own_frames(error: traceback.TracebackException) -> list[traceback.FrameSummary]:
    return [frame for frame in error.stack if not is_of_server(frame.filename)]


def _remove_server_frames(error: traceback.TracebackException) -> int:
    """Remove the frames of the server, and return their number."""
    own = _select_own_frames(error)
    if not own and not hasattr(error, "lineno"):  # only a SyntaxError has it, with the user's file
        return 0
    left_out = len(error.stack) - len(own)
    error.stack = traceback.StackSummary.from_list(own)
    return left_out


def is_of_server(file: str) -> bool:
    """Whether a file belongs to the server, a library that it uses, or a part of the standard library."""
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


def describe_cause(error: BaseException) -> str | None:
    """Return the class and message of the exception of user code behind a failure. None if there is none.

    For an exception of another process, it may be a traceback.
    """
    cause = error.__cause__
    if isinstance(cause, RaisedElsewhere):
        return str(cause)
    return summarize_error(cause) if cause is not None and involves_user_code(cause) else None


def summarize_error(error: BaseException) -> str:
    """Return the class of an error, and the first line of its message."""
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first}".rstrip(": ")
