"""Checks, at load time, that a model class can serve requests. Also locates its code."""

import inspect
from collections.abc import Callable
from typing import Any

from ..errors import HINT, InvalidSettings
from ..functions.errors import source_location
from ..functions.model import DescribedModel, FunctionModel
from ..handlers import get_custom_handlers
from ..model import MLModel, StepModel
from ..settings import ModelSettings
from ..telemetry.tracebacks import format_location

METHODS = {"predict": "payload", "predict_stream": "payloads"}


def not_a_model(settings: ModelSettings) -> InvalidSettings:
    """Return the error for an implementation that is not a model class."""
    name = settings.implementation_.rpartition(".")[2]
    step = f"write `from inferstream import MLModel` and `class {name}(MLModel)`"
    return InvalidSettings(
        f'implementation "{settings.implementation_}" is not a subclass of MLModel{HINT}{step}'
    )


def check_constructor(kind: type[MLModel], settings: ModelSettings) -> None:
    """Raise InvalidSettings if `__init__` does not accept the settings."""
    if not accepts_argument(kind, settings):
        raise InvalidSettings(
            f"{source_location(kind.__init__)}: it must take the settings: write def __init__(self, settings) and "
            "super().__init__(settings) in its first line, or move its code to load(self)"
        )


def check_object(model: MLModel) -> None:
    """Raise InvalidSettings if the model's `__init__` did not call `super().__init__`."""
    if "_settings" not in vars(model):
        raise InvalidSettings(
            f"{source_location(type(model).__init__)}: write super().__init__(settings) in its first line"
        )


def check_methods(model: MLModel) -> None:
    """Raise InvalidSettings if a model has no request method, or if one of them does not accept a request."""
    if isinstance(model, FunctionModel):
        return
    written = _find_request_methods(model)
    if not written and not isinstance(model, StepModel) and not get_custom_handlers(model):
        raise InvalidSettings(
            f"class {type(model).__name__} has neither predict nor predict_stream: write "
            "def predict(self, payload), or a generator predict_stream(self, payloads)"
        )
    for name in written:
        method = getattr(model, name)
        if not accepts_argument(method, None):
            raise InvalidSettings(
                f"{source_location(method)}: it cannot be called with a request: write {name}(self, {METHODS[name]})"
            )


def location_in(model: MLModel) -> str:
    """Return the file and line of the code that produces the responses, in the format of a traceback."""
    if isinstance(model, DescribedModel):
        return format_location(model.described.function)
    names = ["step"] if isinstance(model, StepModel) else _find_request_methods(model)
    return "\n".join(format_location(getattr(model, name)) for name in names)


def _find_request_methods(model: MLModel) -> list[str]:
    """Return the names of the request methods that override the base class."""
    return [
        name
        for name in METHODS
        if name in vars(model) or getattr(type(model), name) is not getattr(MLModel, name)
    ]


def accepts_argument(called: Callable[..., Any], argument: Any) -> bool:
    """Whether a callable accepts one argument, as far as its signature is known."""
    try:
        inspect.signature(called, follow_wrapped=False).bind(argument)
    except TypeError:
        return False
    except ValueError:  # a method without parameters, or C code with unknown parameters
        return not inspect.ismethod(called)
    return True
