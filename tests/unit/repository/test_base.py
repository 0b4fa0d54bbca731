"""Repositories of models, and those of programs."""

from pathlib import Path

import pytest

from inferstream import ModelSettings
from inferstream.errors import InvalidSettings, ModelNotFound
from inferstream.repository import BrokenModel, InMemoryRepository, ModelRepository
from inferstream.repository.base import BrokenModels, Versions


def settings(name: str, version: str | None = None) -> ModelSettings:
    return ModelSettings(name=name, implementation="a.B", parameters={"version": version})


async def test_model_is_found_with_all_versions() -> None:
    first, other, second = settings("m", "1"), settings("n"), settings("m", "2")
    repository = InMemoryRepository([first, other, second])
    assert await repository.list() == [first, other, second]
    assert await repository.find("m") == [first, second]
    with pytest.raises(ModelNotFound, match="Model x not found"):
        await repository.find("x")


class Own(ModelRepository):
    """One of a user, that says only which models there are, and which are broken."""

    async def list(self) -> Versions:
        return [settings("m")]

    async def broken(self) -> BrokenModels:
        return [BrokenModel("m", "another version"), BrokenModel("n", "no class")]


async def test_repository_finds_listed_models_and_raises_for_broken_ones() -> None:
    repository = Own()
    assert [found.name for found in await repository.find("m")] == ["m"]
    with pytest.raises(InvalidSettings, match="Model n cannot be loaded: no class"):
        await repository.find("n")
    assert repository.concerns(Path("anything"))


async def test_version_is_selected_from_the_list() -> None:
    assert (await Own().version("m", None)).name == "m"
    with pytest.raises(ModelNotFound, match="Model m with version 2 not found"):
        await Own().version("m", "2")
    with pytest.raises(InvalidSettings, match="Model n cannot be loaded: no class"):
        await Own().version("n", None)
