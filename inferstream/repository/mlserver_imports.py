"""Lets model code written for MLServer keep its imports, wherever the real package is not installed."""

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

NAME = "mlserver"
FOLDER = Path(__file__).parents[1] / "compat" / NAME


class Finder(MetaPathFinder):
    """Finds the package itself; its modules are found through its path, like those of any package."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if fullname != NAME:
            return None
        return spec_from_file_location(NAME, FOLDER / "__init__.py", submodule_search_locations=[str(FOLDER)])


def install() -> None:
    """Make `import mlserver` work. The last finder to be asked, so that an installed package goes first."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.append(Finder())
