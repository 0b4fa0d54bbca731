"""Ollama's names of models."""

import pytest

from tests.plugins.text.test_text_dialect import Asking, words


@pytest.mark.parametrize(("name", "status"), [("words", 200), ("words:latest", 200), ("nothing", 404)])
async def test_model_is_listed_with_name_and_latest_tag(name: str, status: int) -> None:
    async with Asking(words()) as asking:
        assert (await asking.post("/api/show", model=name)).status_code == status
