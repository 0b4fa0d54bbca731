"""Functions of PyTorch."""

import numpy as np
import pytest

from inferstream import testing
from inferstream.ext.hosting import install_aliases

install_aliases()

from blazerpc import (
    BlazeApp,
)


async def test_pytorch() -> None:
    torch = pytest.importorskip("torch")
    from blazerpc.contrib.pytorch import torch_model  # type: ignore[import-not-found]

    app = BlazeApp()

    @app.model("classifier")
    @torch_model(device="cpu")
    def classify(image):
        assert isinstance(image, torch.Tensor)
        return image.softmax(-1)

    async with testing.run(app) as models:
        response = await models.infer("classifier", image=np.zeros((1, 2), np.float32))
    assert (response.outputs[0].shape, response.outputs[0].data.flat()) == ([1, 2], [0.5, 0.5])
