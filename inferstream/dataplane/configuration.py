"""Validation of settings files, including the versions that they refer to."""

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
    """Warn about versions in the settings that are not in `known`.

    If `strict`, raises InvalidSettings for them and for any other fault in the settings files.
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
    """Yield the versions that plug-in settings refer to, as pairs of setting and version."""
    for kind in type(settings).__mro__:
        if issubclass(kind, Section) and kind is not Section and "named_versions" in vars(kind):
            yield from kind.named_versions(settings)
