"""Lets model code written for MLServer keep its imports, wherever the real packages are not installed."""

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

FOLDER = Path(__file__).parent
NAMES = frozenset({"mlserver", "mlserver_sklearn", "mlserver_xgboost", "mlserver_lightgbm"})
"""MLServer itself, and those of its runtimes that have one of ours in their place."""


class Finder(MetaPathFinder):
    """Finds the packages themselves; their modules are found through their paths, like those of any package.

    An installed package goes first. A folder without code that has the name, such as a model's, does not.
    """

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if fullname not in NAMES:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, None, None)
            if spec is not None and spec.origin is not None:
                return spec
        folder = FOLDER / fullname
        return spec_from_file_location(
            fullname, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )


def install() -> None:
    """Make `import mlserver` work."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())
