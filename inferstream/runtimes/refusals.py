"""Errors of frameworks that are errors of the client."""

import sys
from collections.abc import Set
from types import TracebackType

from ..errors import InvalidRequest
from ..types import InferenceRequest

PACKAGES = frozenset((__name__.rpartition(".")[0], "joblib", "numpy", "pandas", "scipy"))
"""Packages whose code any runtime may run."""

LONGEST = 300
"""Characters of a library's message that a client gets. Some messages quote the whole input."""


def is_of_client(error: Exception, kinds: tuple[type[Exception], ...], libraries: Set[str]) -> bool:
    """Whether a framework has raised an error because of the values of a request.

    It has if only code of `libraries` ran below the runtime: clients must not read errors of a custom transformer in
    a pipeline. Subclasses of `kinds` have other causes, such as a model without training.
    """
    return type(error) in kinds and _ran_only(PACKAGES | libraries, error.__traceback__)


def refusal_of(request: InferenceRequest, error: Exception) -> InvalidRequest:
    """The error of the client with a framework's reason."""
    message = " ".join(str(error).split())
    if len(message) > LONGEST:
        message = f"{message[:LONGEST]}..."
    return InvalidRequest(f"{inputs_of(request)}: {message}")


def inputs_of(request: InferenceRequest) -> str:
    """The names of a request's inputs, for error messages."""
    if not request.inputs:
        return "a request without inputs"
    names = ", ".join(f'"{tensor.name}"' for tensor in request.inputs)
    return f"{'input' if len(request.inputs) == 1 else 'inputs'} {names}"


def _ran_only(packages: Set[str], traceback: TracebackType | None) -> bool:
    """Whether all code that ran is in these packages, or in the standard library."""
    while traceback is not None:
        parts = str(traceback.tb_frame.f_globals.get("__name__")).split(".")
        names = {".".join(parts[:count]) for count in range(1, len(parts) + 1)}
        if parts[0] not in sys.stdlib_module_names and packages.isdisjoint(names):
            return False
        traceback = traceback.tb_next
    return True
