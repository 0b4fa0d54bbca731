"""Reports faults of settings files, and versions that settings name and that are missing."""

import logging
from collections.abc import Collection, Sequence

from ..errors import InvalidSettings
from ..settings import ModelSettings
from ..settings.sources import refused_by_strict
from .traffic import named_versions

logger = logging.getLogger("inferstream.dataplane")


def check_configuration(
    wanted: Sequence[ModelSettings], known: Collection[tuple[str, str | None]], strict: bool
) -> None:
    """Warn of versions that `split` or `shadow` name and that are not in `known`.

    Raises InvalidSettings for them, and for faults of the settings files, if `strict`.
    """
    faults = [f"{settings.source}: {fault}" for settings in wanted for fault in settings.faults]
    for settings in wanted:
        for setting, version in named_versions(settings):
            if (settings.name, version) not in known:
                source = settings.source or f"model {settings.name}"
                faults.append(f"{source}: {setting} names version {version}, which is missing")
                logger.warning("%s", faults[-1])
    if faults and strict:
        raise InvalidSettings(refused_by_strict(faults))
