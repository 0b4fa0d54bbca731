"""The version that a caller gets of a model whose settings split its calls."""

from collections.abc import Collection, Iterator
from random import random
from zlib import crc32

from inferstream import ModelSettings
from inferstream.ext.calls import Caller

from ..settings import Split


def named_versions(settings: ModelSettings) -> Iterator[tuple[str, str]]:
    """The versions that settings name, each with the setting that names it."""
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
