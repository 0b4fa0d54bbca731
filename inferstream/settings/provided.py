"""Classes and models of the program, which settings name."""

import sys
from typing import Any, Self


class ProvidedModel:
    """Holds a class or model of the program. Copies of the settings share it."""

    def __init__(self, model: Any, importable: bool = False) -> None:
        self.model = model
        self.importable = importable

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


def is_importable(implementation: type[Any]) -> bool:
    """Whether the import path of this class works in any process."""
    module = implementation.__module__
    imported = getattr(sys.modules.get(module), implementation.__qualname__, None)
    return imported is implementation and module != "__main__"


def import_path(implementation: type[Any]) -> str:
    return f"{implementation.__module__}.{implementation.__qualname__}"
