"""The task `sentence-similarity`."""

from contextvars import copy_context
from typing import Any

import numpy as np
import pytest

from inferstream.context import RequestContext, enter
from inferstream.errors import InvalidRequest
from inferstream.runtimes.pipelines.similarity import Similarity


class Letters:
    """Encodes a text as the counts of its letters a and b."""

    default_prompt = ""

    def encode(self, texts: list[str], prompt: str, context: RequestContext) -> tuple[Any, int]:
        return np.array([[text.count("a"), text.count("b")] for text in texts], np.float32), 0


def similarity(sources: list[str], sentences: list[str]) -> list[float]:
    """The similarities, asked for as model code asks."""

    def ask() -> list[float]:
        enter(RequestContext())
        return Similarity(Letters())(sources, sentences)  # type: ignore[arg-type]

    return copy_context().run(ask)


def test_it_is_the_cosine_of_the_vectors() -> None:
    assert similarity(["aa"], ["a", "b", "ab", ""]) == pytest.approx([1, 0, 0.5**0.5, 0])


@pytest.mark.parametrize("sources", [[], ["a", "b"]])
def test_there_is_one_source(sources: list[str]) -> None:
    with pytest.raises(InvalidRequest, match=f"needs one text, got {len(sources)}"):
        similarity(sources, ["a"])
