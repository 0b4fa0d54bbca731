"""A model written with plain Python types: codecs are picked from the annotations."""

import numpy as np

from inferstream import MLModel
from inferstream.codecs import decode_args


class Scaler(MLModel):
    @decode_args
    async def predict(
        self, values: np.ndarray, labels: list[str], factor: np.ndarray | None = None
    ) -> tuple[np.ndarray, list[str]]:
        scaled = values * (2.0 if factor is None else factor)
        return scaled, [f"{label}: {row.sum():g}" for label, row in zip(labels, scaled, strict=True)]
