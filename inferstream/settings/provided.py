"""Model classes and objects of the embedding program that settings refer to."""

import sys
from typing import Any, Self


class ProvidedModel:
    """A model class or object of the program. Copies of the settings share it."""

    def __init__(self, model: Any, importable: bool = False) -> None:
        self.model = model
        self.importable = importable

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


def is_importable(implementation: type[Any]) -> bool:
    """Whether every process can import this class from its import path."""
    module = implementation.__module__
    imported = getattr(sys.modules.get(module), implementation.__qualname__, None)
    return imported is implementation and module != "__main__"


def import_path(implementation: type[Any]) -> str:
    return f"{implementation.__module__}.{implementation.__qualname__}"
