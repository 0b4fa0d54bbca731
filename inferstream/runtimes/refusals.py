"""Errors of frameworks that are errors of the client."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from ..errors import InvalidRequest
from ..types import InferenceRequest

LIBRARIES = frozenset(
    (
        *("_catboost", "catboost", "huggingface_hub", "joblib", "lightgbm", "mlflow", "numpy", "onnxruntime"),
        *("optimum", "pandas", "scipy", "sklearn", "tokenizers", "torch", "transformers", "xgboost"),
    )
)
"""Libraries that raise ValueError for wrong input."""

RUNTIMES = __name__.removesuffix("refusals")

LONGEST = 300
"""Characters of a library's message that a client gets. Some messages quote the whole input."""


@contextmanager
def refusing(request: InferenceRequest, kinds: tuple[type[Exception], ...]) -> Iterator[None]:
    """Raise the framework's error as one of the client, unless the model may have caused it.

    It is an error of the client if only libraries' code ran below the runtime: clients must not read errors of a
    custom transformer in a pipeline. Subclasses of `kinds` have other causes, such as a model without training.
    """
    try:
        yield
    except kinds as error:
        if type(error) not in kinds or not LIBRARIES.issuperset(_packages(error.__traceback__)):
            raise
        raise refusal_of(request, error) from error


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


def _packages(traceback: TracebackType | None) -> Iterator[str]:
    """Packages of the code that ran, without the standard library and the runtimes."""
    while traceback is not None:
        module = str(traceback.tb_frame.f_globals.get("__name__"))
        package = module.partition(".")[0]
        if package not in sys.stdlib_module_names and not module.startswith(RUNTIMES):
            yield package
        traceback = traceback.tb_next
