"""Refuses classes that cannot serve a request, in a sentence, when they load, and says where their code is."""

import inspect
from collections.abc import Callable
from typing import Any

from ..errors import InvalidSettings
from ..functions.errors import location_of
from ..functions.model import DescribedModel, FunctionModel
from ..handlers import get_custom_handlers
from ..model import MLModel, StepModel
from ..settings import ModelSettings
from ..telemetry.tracebacks import located

METHODS = {"predict": "payload", "predict_stream": "payloads"}


def check_constructor(kind: type[MLModel], settings: ModelSettings) -> None:
    """Raise InvalidSettings for an `__init__` that does not take the settings."""
    if not takes_one(kind, settings):
        raise InvalidSettings(
            f"{location_of(kind.__init__)}: it must take the settings: write def __init__(self, settings) and "
            "super().__init__(settings) in its first line, or move its code to load(self)"
        )


def check_object(model: MLModel) -> None:
    """Raise InvalidSettings for a model whose `__init__` left out that of its base."""
    if "_settings" not in vars(model):
        raise InvalidSettings(
            f"{location_of(type(model).__init__)}: write super().__init__(settings) in its first line"
        )


def check_methods(model: MLModel) -> None:
    """Raise InvalidSettings for a model without a method for requests, or with one that cannot take them."""
    if isinstance(model, FunctionModel):
        return
    written = _written(model)
    if not written and not isinstance(model, StepModel) and not get_custom_handlers(model):
        raise InvalidSettings(
            f"class {type(model).__name__} has neither predict nor predict_stream: write "
            "def predict(self, payload), or a generator predict_stream(self, payloads)"
        )
    for name in written:
        method = getattr(model, name)
        if not takes_one(method, None):
            raise InvalidSettings(
                f"{location_of(method)}: it cannot be called with a request: write {name}(self, {METHODS[name]})"
            )


def location_in(model: MLModel) -> str:
    """The file and line of the code that makes a model's responses, as a traceback writes them."""
    if isinstance(model, DescribedModel):
        return located(model.described.function)
    names = ["step"] if isinstance(model, StepModel) else _written(model)
    return "\n".join(located(getattr(model, name)) for name in names)


def _written(model: MLModel) -> list[str]:
    """The methods for requests that are not those of the base class."""
    return [
        name
        for name in METHODS
        if name in vars(model) or getattr(type(model), name) is not getattr(MLModel, name)
    ]


def takes_one(called: Callable[..., Any], argument: Any) -> bool:
    """Whether a call with one argument fits the parameters, as far as Python knows them."""
    try:
        inspect.signature(called, follow_wrapped=False).bind(argument)
    except TypeError:
        return False
    except ValueError:  # of a method without any parameter, or of code in C, whose parameters are not known
        return not inspect.ismethod(called)
    return True
