"""Errors of frameworks that are errors of the client."""

import sys
from collections.abc import Iterator
from types import TracebackType

from ..errors import InvalidRequest
from ..types import InferenceRequest

LIBRARIES = frozenset(
    (
        *(
            "joblib",
            "lightgbm",
            "numpy",
            "pandas",
            "scipy",
            "sklearn",
            "xgboost",
            "onnxruntime",
            "catboost",
            "_catboost",
            "mlflow",
        ),
        *("huggingface_hub", "optimum", "tokenizers", "torch", "transformers"),
    )
)
"""Libraries that raise ValueError for wrong input."""

RUNTIMES = __name__.removesuffix("refusals")

LONGEST = 300
"""Characters of a library's message that a client gets. Some messages quote the whole input."""


def refusal(
    error: Exception, request: InferenceRequest, kinds: tuple[type[Exception], ...] = (ValueError,)
) -> InvalidRequest | None:
    """The framework's error as an error of the client; None if the model may have caused it.

    It is an error of the client if only libraries' code ran below the runtime: clients must not read errors of a
    custom transformer in a pipeline. Subclasses of `kinds` have other causes, such as a model without training.
    """
    if type(error) not in kinds or not LIBRARIES.issuperset(_packages(error.__traceback__)):
        return None
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
    """Packages of the code that ran below the runtime's call, without the standard library and the runtimes."""
    traceback = traceback.tb_next if traceback is not None else None
    while traceback is not None:
        module = str(traceback.tb_frame.f_globals.get("__name__"))
        package = module.partition(".")[0]
        if package not in sys.stdlib_module_names and not module.startswith(RUNTIMES):
            yield package
        traceback = traceback.tb_next
