"""Models affected by file changes."""

from collections.abc import Sequence
from pathlib import Path


def find_affected_models(paths: Sequence[Path], sources: set[tuple[str, str]]) -> list[str]:
    """Return the names of the models whose folders contain, or are inside, any of these absolute paths.

    A Python file outside all model folders affects every model. `sources` are pairs of a model name and
    the path of its settings file.
    """
    folders = {source: Path(source).resolve().parent for _, source in sources if source}
    shared = any(
        path.suffix == ".py" and not any(map(path.is_relative_to, folders.values())) for path in paths
    )
    touched = {
        source
        for source, folder in folders.items()
        if any(path.is_relative_to(folder) or folder.is_relative_to(path) for path in paths)
    }
    return sorted({name for name, source in sources if shared or source in touched})
