"""`Similarity`: the task `sentence-similarity` of the Hugging Face Hub."""

from collections.abc import Sequence

import numpy as np

from inferstream import request_context
from inferstream.errors import InvalidRequest

from ..encoders import Encoder


class Similarity:
    """Computes the cosine similarity of a sentence to others."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def __call__(self, source_sentence: Sequence[str], sentences: Sequence[str]) -> list[float]:
        """Return a number from -1 to 1 for each of `sentences`.

        Raises InvalidRequest unless there is exactly one source sentence.
        """
        if len(source_sentence) != 1:
            raise InvalidRequest(f'input "source_sentence": needs one text, got {len(source_sentence)}')
        texts = [*source_sentence, *sentences]
        vectors, _ = self._encoder.encode(texts, self._encoder.default_prompt, request_context())
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.maximum(lengths, np.finfo(np.float32).tiny)
        similarities: list[float] = (vectors[1:] @ vectors[0]).tolist()
        return similarities
