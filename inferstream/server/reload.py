"""Reloads models whose files change: on disk, for development, or elsewhere."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from watchfiles import Change, awatch

from ..dataplane.registry import Registry
from ..errors import InferstreamError

logger = logging.getLogger("inferstream.server")


async def reload_on_change(registry: Registry, root: Path) -> None:
    """Reload each model that a changed file under `root` belongs to, until cancelled."""
    try:
        async for changes in awatch(root):
            # A change of a folder's own entry would reload every model below it.
            files = [
                Path(path)
                for change, path in changes
                if change is not Change.modified or not Path(path).is_dir()
            ]
            await _reload(registry, [path.resolve() for path in files])
    except Exception:  # of the watcher
        logger.exception("the watch of the files failed: models are no longer reloaded")


async def _reload(registry: Registry, changed: list[Path]) -> None:
    try:
        names = await registry.names_at(changed)
    except Exception:  # of a repository that a user has written
        logger.exception("the repository cannot name the models that have changed")
        return
    await _load(registry, names)


async def reload_renewed(registry: Registry, seconds: float) -> None:
    """Look for new versions of what comes from elsewhere every `seconds`, and load them, until cancelled."""
    while True:
        await asyncio.sleep(seconds)
        if not registry.started:
            continue
        try:
            await _load(registry, await registry.renewed())
        except InferstreamError as error:
            logger.warning("%s; what was fetched before goes on serving", error.message)
        except Exception:  # of a repository or a source that a user has written
            logger.exception("the look for new versions elsewhere failed")


async def _load(registry: Registry, names: Sequence[str]) -> None:
    logged: set[str] = set()
    for name in names:
        try:
            await registry.load(name, logged)
            logger.info("reloaded model %s", name)
        except InferstreamError:
            continue  # the log has it
        except Exception:
            logger.exception("model %s cannot be reloaded", name)
