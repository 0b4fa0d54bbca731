"""Reports faults of settings files, and versions that settings name and that are missing."""

import logging
from collections.abc import Collection, Iterator, Sequence

from ..errors import InvalidSettings
from ..settings import ModelSettings
from ..settings.sections import Section
from ..settings.sources import refused_by_strict

logger = logging.getLogger("inferstream.dataplane")


def check_configuration(
    wanted: Sequence[ModelSettings],
    known: Collection[tuple[str, str | None]],
    strict: bool,
) -> None:
    """Warn of versions that settings name, and that are not in `known`.

    Raises InvalidSettings for them, and for faults of the settings files, if `strict`.
    """
    faults = [f"{settings.source}: {fault}" for settings in wanted for fault in settings.faults]
    for settings in wanted:
        for setting, version in _named_versions(settings):
            if (settings.name, version) not in known:
                source = settings.source or f"model {settings.name}"
                faults.append(f"{source}: {setting} names version {version}, which is missing")
                logger.warning("%s", faults[-1])
    if faults and strict:
        raise InvalidSettings(refused_by_strict(faults))


def _named_versions(settings: ModelSettings) -> Iterator[tuple[str, str]]:
    """The versions that the sections of plug-ins name."""
    for kind in type(settings).__mro__:
        if issubclass(kind, Section) and kind is not Section and "named_versions" in vars(kind):
            yield from kind.named_versions(settings)
