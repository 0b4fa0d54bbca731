"""Reload models when their files change locally (for development) or at a remote source."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from watchfiles import Change, awatch

from ..dataplane.registry import Registry
from ..errors import InferstreamError

logger = logging.getLogger("inferstream.server")


async def reload_on_change(registry: Registry, root: Path) -> None:
    """Reload each model whose files change under `root`, until cancelled."""
    try:
        async for changes in awatch(root):
            # A modified directory entry would reload every model below it.
            files = [
                Path(path)
                for change, path in changes
                if change is not Change.modified or not Path(path).is_dir()
            ]
            await _reload(registry, [path.resolve() for path in files])
    except Exception:  # raised by the watcher
        logger.exception("file watcher failed: models are no longer reloaded")


async def _reload(registry: Registry, changed: list[Path]) -> None:
    try:
        names = await registry.names_at(changed)
    except Exception:  # raised by a user-defined repository
        logger.exception("looking up the changed models in the repository failed")
        return
    await _load(registry, names)


async def reload_remote_sources(registry: Registry, seconds: float) -> None:
    """Check remote sources for new versions every `seconds` and load them, until cancelled."""
    while True:
        await asyncio.sleep(seconds)
        if not registry.started:
            continue
        try:
            await _load(registry, await registry.fetch_newer())
        except InferstreamError as error:
            logger.warning("%s; the previous version stays in use", error.message)
        except Exception:  # raised by a user-defined repository or source
            logger.exception("checking remote sources for new versions failed")


async def _load(registry: Registry, names: Sequence[str]) -> None:
    logged: set[str] = set()
    for name in names:
        try:
            await registry.load(name, logged)
            logger.info("reloaded model %s", name)
        except InferstreamError:
            continue  # already logged
        except Exception:
            logger.exception("model %s: reload failed", name)
