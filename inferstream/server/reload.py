"""Reloads models whose files change on disk, for development."""

import logging
from pathlib import Path

from watchfiles import awatch

from ..dataplane.registry import Registry
from ..errors import InferstreamError, ModelLoadFailed

logger = logging.getLogger("inferstream.server")


async def reload_on_change(registry: Registry, root: Path) -> None:
    """Load anew every model that a changed file under `root` belongs to; runs until cancelled."""
    async for changes in awatch(root):
        changed = [Path(path).resolve() for _, path in changes]
        for name in await registry.names_at(changed):
            try:
                await registry.load(name)
                logger.info("reloaded model %s", name)
            except ModelLoadFailed:
                continue  # the registry has said so
            except InferstreamError as error:
                logger.error("%s", error.message)
