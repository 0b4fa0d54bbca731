"""The version that a caller gets of a model whose settings split its calls."""

import logging
from collections.abc import Collection, Iterator, Sequence
from random import random
from zlib import crc32

from ..errors import InvalidSettings
from ..settings import ModelSettings, Split
from ..settings.sources import refused_by_strict
from .caller import Caller

logger = logging.getLogger("inferstream.dataplane")


def check_configuration(
    wanted: Sequence[ModelSettings], known: Collection[tuple[str, str | None]], strict: bool
) -> None:
    """Warn of versions that `split` or `shadow` name and that are not in `known`.

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
    for version in settings.split.versions if settings.split else ():
        yield "split", version
    if settings.shadow:
        yield "shadow", settings.shadow.to


def chosen_version(split: Split, ready: Collection[str], caller: Caller) -> str | None:
    """One of the versions that are ready, by their shares; None if none of them has a share.

    The value of the header that `split.by` names chooses, else the principal: each gets the same version every time, in
    every front end, while the shares stay. Other callers get one by chance.
    """
    shares = [(version, share) for version, share in split.versions.items() if share and version in ready]
    if not shares:
        return None
    whose = (caller.headers.get(split.by) if split.by else None) or caller.principal
    point = (crc32(whose.encode()) / 2**32 if whose else random()) * sum(share for _, share in shares)
    for version, share in shares:
        point -= share
        if point < 0:
            return version
    return shares[-1][0]
