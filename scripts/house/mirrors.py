"""The place of a module's unit tests: `tests/unit` has the folders of the package, and `test_` before each name."""

from pathlib import Path

from .patterns import USERS
from .source import Source

UNIT = Path("tests/unit")


def mirror(name: str) -> Path:
    """Where the tests of a file of the package are, by its name from the package on."""
    file = Path(name)
    return UNIT / file.parent / f"test_{file.name}"


def modules(sources: list[Source]) -> list[str]:
    """Files that need tests of their own: not those that gather names or start a program, nor examples for users."""
    return [
        source.name
        for source in sources
        if Path(source.name).name not in ("__init__.py", "__main__.py") and not USERS.match(source.name)
    ]
