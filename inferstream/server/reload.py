"""Reloads models whose files change on disk, for development."""

import logging
from pathlib import Path

from watchfiles import Change, awatch

from ..dataplane.registry import Registry
from ..errors import InferstreamError

logger = logging.getLogger("inferstream.server")


async def reload_on_change(registry: Registry, root: Path) -> None:
    """Load anew every model that a changed file under `root` belongs to; runs until cancelled."""
    try:
        async for changes in awatch(root):
            changed = [Path(path) for change, path in changes if not _is_touched_folder(change, path)]
            await _reload(registry, [path.resolve() for path in changed])
    except Exception:  # of the watcher: without it nothing is reloaded any more
        logger.exception("files that change are no longer seen")


def _is_touched_folder(change: Change, path: str) -> bool:
    """Whether nothing has come or gone: every model below would be loaded anew."""
    return change is Change.modified and Path(path).is_dir()


async def _reload(registry: Registry, changed: list[Path]) -> None:
    try:
        names = await registry.names_at(changed)
    except Exception:  # of a repository that is the user's own code
        logger.exception("what has changed in the repository cannot be told")
        return
    for name in names:
        try:
            await registry.load(name)
            logger.info("reloaded model %s", name)
        except InferstreamError:
            continue  # the registry has said so
        except Exception:
            logger.exception("model %s cannot be reloaded", name)
