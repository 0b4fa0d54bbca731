"""Framework errors that are reported as client errors."""

import sys
from collections.abc import Set
from types import TracebackType

from ..errors import HINT, InvalidRequest
from ..types import InferenceRequest

PACKAGES = frozenset((__name__.rpartition(".")[0], "joblib", "numpy", "pandas", "scipy"))
"""Packages that any runtime may use."""

MAX_REASON_LENGTH = 300
"""The maximum length, in characters, of a library's message, because some messages quote the whole input."""


def is_client_error(error: Exception, kinds: tuple[type[Exception], ...], libraries: Set[str]) -> bool:
    """Whether a framework raised an error because of invalid values in a request.

    This requires that only code in `libraries` ran below the runtime, because errors of a custom transformer
    in a pipeline must not reach clients. Subclasses of `kinds` have other causes, such as an unfitted model.
    """
    return type(error) in kinds and _ran_only(PACKAGES | libraries, error.__traceback__)


def to_client_error(request: InferenceRequest, error: Exception) -> InvalidRequest:
    """Return a client error with the framework's message."""
    message = " ".join(str(error).split())
    if len(message) > MAX_REASON_LENGTH:
        message = f"{message[:MAX_REASON_LENGTH]}..."
    if isinstance(error, TypeError):
        message += f"{HINT}compare the datatypes with the model's metadata"
    return InvalidRequest(f"{format_inputs(request)}: {message}")


def format_inputs(request: InferenceRequest) -> str:
    """Return the names of a request's inputs for error messages."""
    if not request.inputs:
        return "a request without inputs"
    names = ", ".join(f'"{tensor.name}"' for tensor in request.inputs)
    return f"{'input' if len(request.inputs) == 1 else 'inputs'} {names}"


def _ran_only(packages: Set[str], traceback: TracebackType | None) -> bool:
    """Whether all code in the traceback is in these packages or the standard library."""
    while traceback is not None:
        parts = str(traceback.tb_frame.f_globals.get("__name__")).split(".")
        names = {".".join(parts[:count]) for count in range(1, len(parts) + 1)}
        if parts[0] not in sys.stdlib_module_names and packages.isdisjoint(names):
            return False
        traceback = traceback.tb_next
    return True
