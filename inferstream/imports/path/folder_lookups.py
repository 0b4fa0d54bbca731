"""Standard library functions that look up packages by name, adapted for code in model folders.

This file is also imported in the processes of a pool.
"""

import importlib.util
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import Distribution


def install_lookups(full_name: Callable[[str], str]) -> None:
    """Make `find_spec` and `pkgutil.get_data` resolve names in the folder of the calling model first."""
    find_spec, get_data = importlib.util.find_spec, pkgutil.get_data

    @wraps(find_spec)
    def find_spec_in_folder(name: str, package: str | None = None) -> Any:
        return find_spec(full_name(name), package)

    @wraps(get_data)
    def get_data_in_folder(package: str, resource: str) -> bytes | None:
        return get_data(full_name(package), resource)

    importlib.util.find_spec, pkgutil.get_data = find_spec_in_folder, get_data_in_folder


def distributions_in(paths: Sequence[str], name: str | None) -> Iterator["Distribution"]:
    """Yield the distributions in these folders and archives, or only those called `name` if it is set."""
    from importlib.metadata import DistributionFinder, MetadataPathFinder  # lazy: few models use it

    context = DistributionFinder.Context(name=name, path=[*paths])
    yield from MetadataPathFinder.find_distributions(context)
