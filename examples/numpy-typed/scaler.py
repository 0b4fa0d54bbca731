"""A model written with plain Python types: codecs are picked from the annotations."""

import numpy as np
from numpy.typing import NDArray

from inferstream import MLModel
from inferstream.codecs import decode_args


class Scaler(MLModel):
    @decode_args
    async def predict(
        self, values: NDArray[np.float32], labels: list[str], factor: NDArray[np.float32] | None = None
    ) -> tuple[NDArray[np.float32], list[str]]:
        scaled = values * (2.0 if factor is None else factor)
        return scaled, [f"{label}: {row.sum():g}" for label, row in zip(labels, scaled, strict=True)]
