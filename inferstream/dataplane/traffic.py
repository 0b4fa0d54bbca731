"""The version that a caller gets of a model whose settings split its calls."""

from collections.abc import Callable, Collection
from random import random
from zlib import crc32

from inferstream import ModelSettings
from inferstream.ext.calls import Caller, StageContext, StagedModel

from ..settings.traffic import Split, VersionSettings


def split_of(settings: ModelSettings) -> Split | None:
    """The shares of the calls of a model, if its settings have any."""
    return settings.section(VersionSettings).split


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


def splitting(model: StagedModel, _: StageContext) -> StagedModel:
    """The stage that chooses a version for each caller. Off unless the model's settings split its calls."""
    split = split_of(model.settings)
    if split is None:
        return model

    def choose(is_ready: Callable[[str], bool], caller: Caller) -> str | None:
        return chosen_version(split, [version for version in split.versions if is_ready(version)], caller)

    return model.around(model.handler, choose=choose)
