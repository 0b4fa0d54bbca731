"""Functions that TorchServe handlers call."""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from inferstream.errors import Unsupported

Method = TypeVar("Method", bound=Callable[..., Any])


class PredictionException(Exception):
    """An error that a handler raises, with the HTTP status that the client receives."""

    def __init__(self, message: str, error_code: int = 500) -> None:
        super().__init__(message)
        self.message = message
        self.error_code = error_code

    def __str__(self) -> str:
        return f"{self.message} : {self.error_code}"


def send_intermediate_predict_response(
    ret: Any, req_id_map: Mapping[int, str], message: str, code: int, context: Any = None
) -> None:
    """Send a part of the response before the handler returns the last part.

    Raises Unsupported if the call expects a single response.
    """
    if getattr(context, "send", None) is None:
        raise Unsupported("this call of the handler takes one whole answer, and no pieces of it")
    context.send(ret)


def measure_time(method: Method) -> Method:
    """Return the method unchanged. TorchServe measures its time, but inferstream measures whole calls."""
    return method


def list_classes_from_module(module: ModuleType, parent_class: type | None = None) -> list[type]:
    """Return the classes that a module defines, optionally only the subclasses of `parent_class`."""
    kinds = [
        kind for _, kind in inspect.getmembers(module, inspect.isclass) if kind.__module__ == module.__name__
    ]
    return [kind for kind in kinds if parent_class is None or issubclass(kind, parent_class)]


def load_label_mapping(mapping_file_path: str) -> dict[str, str] | None:
    """Read class names by index from a JSON file. Returns None if the file is missing. Raises ValueError."""
    path = Path(mapping_file_path)
    if not path.is_file():
        return None
    mapping = json.loads(path.read_text())
    if not isinstance(mapping, dict):
        raise ValueError(f"{path.name} must be an object of labels")
    names = mapping.get("object_type_names")
    if isinstance(names, list):
        return {str(index): name for index, name in enumerate(names)}
    labels = {key: value[-1] if isinstance(value, list) else value for key, value in mapping.items()}
    if not all(isinstance(label, str) for label in labels.values()):
        raise ValueError(f"the labels in {path.name} must be texts, or lists of texts")
    return labels


def map_class_to_label(
    probs: list[list[float]],
    mapping: Mapping[str, str] | None = None,
    lbl_classes: Sequence[Sequence[int]] | None = None,
) -> list[dict[str, float]]:
    """Return the probabilities of each row by class name."""
    if not isinstance(probs, list):
        raise TypeError("probs must be a list")
    classes = [range(len(row)) for row in probs] if lbl_classes is None else lbl_classes
    return [
        {
            str(each) if mapping is None else mapping[str(each)]: prob
            for each, prob in zip(row, values, strict=False)
        }
        for row, values in zip(classes, probs, strict=False)
    ]
