"""Models that a change of files touches."""

from collections.abc import Sequence
from pathlib import Path


def touched_by(paths: Sequence[Path], sources: set[tuple[str, str]]) -> list[str]:
    """Names of models whose folders hold, or lie in, any of these absolute paths. Code outside belongs to all.

    `sources` are the names of models with their settings files.
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
