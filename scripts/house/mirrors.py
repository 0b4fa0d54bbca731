"""The place of a module's unit tests: `tests/unit` mirrors the core, and `tests/plugins` the plug-ins."""

from pathlib import Path

from .patterns import USERS
from .source import Source

TESTS = Path("tests")
ROOTS = (TESTS / "unit", TESTS / "plugins")


def mirror(name: str) -> Path:
    """Return the file with the tests of a file of the package, which is named from the package on."""
    file = Path(name)
    root = TESTS if file.parts[0] == "plugins" else TESTS / "unit"
    return root / file.parent / f"test_{file.name}"


def modules(sources: list[Source]) -> list[str]:
    """Files that need tests of their own: not those that gather names or start a program, nor examples for users."""
    return [
        source.name
        for source in sources
        if Path(source.name).name not in ("__init__.py", "__main__.py") and not USERS.match(source.name)
    ]
