"""Choice of a model version for each caller (canary releases)."""

from collections.abc import Callable, Collection
from random import random
from zlib import crc32

from inferstream import ModelSettings
from inferstream.ext.calls import Caller, StageContext, StagedModel

from .settings import Split, VersionSettings


def parse_split(settings: ModelSettings) -> Split | None:
    """Return the shares of a model's versions, or None if its calls are not split."""
    return settings.section(VersionSettings).split


def choose_version(split: Split, ready: Collection[str], caller: Caller) -> str | None:
    """Choose a ready version, weighted by share. Returns None if no ready version has a share.

    The choice depends on the header that `split.by` names, or on the principal. The same value always selects
    the same version, in every front end, while the shares stay the same. For other callers, the choice is
    random.
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


def split_calls(model: StagedModel, _: StageContext) -> StagedModel:
    """Choose a version for each caller if the model's settings split its calls."""
    split = parse_split(model.settings)
    if split is None:
        return model

    def choose(is_ready: Callable[[str], bool], caller: Caller) -> str | None:
        return choose_version(split, [version for version in split.versions if is_ready(version)], caller)

    return model.around(model.handler, choose=choose)
