"""The task `sentence-similarity`."""

from typing import Any

import numpy as np
import pytest

from inferstream import RequestContext
from inferstream.errors import InvalidRequest
from inferstream.plugins.llm.pipelines.similarity import Similarity


class Letters:
    """Encodes a text as the counts of its letters a and b."""

    default_prompt = ""

    def encode(self, texts: list[str], prompt: str, context: RequestContext) -> tuple[Any, int]:
        return np.array([[text.count("a"), text.count("b")] for text in texts], np.float32), 0


@pytest.fixture(autouse=True)
def context(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test is the code of a model."""
    monkeypatch.setattr("inferstream.plugins.llm.pipelines.similarity.request_context", RequestContext)


def similarity(sources: list[str], sentences: list[str]) -> list[float]:
    return Similarity(Letters())(sources, sentences)  # type: ignore[arg-type]


def test_similarity_is_cosine_of_vectors() -> None:
    assert similarity(["aa"], ["a", "b", "ab", ""]) == pytest.approx([1, 0, 0.5**0.5, 0])


@pytest.mark.parametrize("sources", [[], ["a", "b"]])
def test_exactly_one_source_is_accepted(sources: list[str]) -> None:
    with pytest.raises(InvalidRequest, match=f"needs one text, got {len(sources)}"):
        similarity(sources, ["a"])
