"""Telling a framework that refuses its input from a model that fails."""

import sys
from collections.abc import Iterator
from types import TracebackType

from ..errors import InvalidRequest
from ..types import InferenceRequest

LIBRARIES = frozenset(
    (
        *("joblib", "lightgbm", "numpy", "pandas", "scipy", "sklearn", "xgboost"),
        *("huggingface_hub", "optimum", "tokenizers", "torch", "transformers"),
    )
)
"""Their ValueErrors speak of the values they were given."""

LONGEST = 300
"""Characters of a library's message that are passed on; some quote the whole input."""


def refusal(
    error: Exception, request: InferenceRequest, kinds: tuple[type[Exception], ...] = (ValueError,)
) -> InvalidRequest | None:
    """The client's error in what a framework raised; None where the model itself may be at fault.

    It is the client's when no code but the libraries' ran below the runtime: an author's own transformer
    in a pipeline may raise what clients must not read. Subclasses of `kinds` speak of other things,
    such as a model that was never fitted.
    """
    if type(error) not in kinds or not LIBRARIES.issuperset(_packages(error.__traceback__)):
        return None
    message = " ".join(str(error).split())
    if len(message) > LONGEST:
        message = f"{message[:LONGEST]}..."
    return InvalidRequest(f"{inputs_of(request)}: {message}")


def inputs_of(request: InferenceRequest) -> str:
    """The inputs of a request, as messages name them."""
    if not request.inputs:
        return "a request without inputs"
    names = ", ".join(f'"{tensor.name}"' for tensor in request.inputs)
    return f"{'input' if len(request.inputs) == 1 else 'inputs'} {names}"


def _packages(traceback: TracebackType | None) -> Iterator[str]:
    """Packages of the code that was running, from the runtime's own call on, without the standard library."""
    traceback = traceback.tb_next if traceback is not None else None
    while traceback is not None:
        package = str(traceback.tb_frame.f_globals.get("__name__")).partition(".")[0]
        if package not in sys.stdlib_module_names:
            yield package
        traceback = traceback.tb_next
