"""Functions whose annotations say too little."""

from collections.abc import AsyncIterator

import numpy as np
import pytest

from inferstream import testing
from inferstream.errors import InvalidRequest
from inferstream.ext.hosting import install_aliases

install_aliases()

from blazerpc import (
    BlazeApp,
)


async def test_functions_without_annotations_use_arrays() -> None:
    app = BlazeApp()

    @app.model("free")
    def free(image, scale: float = 2.0):
        return None if scale == 0 else image * scale

    @app.model("text")
    def text(image):
        return "no array"

    async with testing.run(app) as models:
        for dtype in (np.float32, np.float64, np.int16):
            response = await models.infer("free", image=np.arange(3, dtype=dtype))
            assert response.outputs[0].data.flat() == [0, 2, 4]
        assert (await models.infer("free", image=np.ones(1), scale=0.0)).outputs == []
        with pytest.raises(InvalidRequest, match='"image" takes numbers, got BYTES'):
            await models.infer("free", image="a")
        with pytest.raises(Exception, match="annotate it"):
            await models.infer("text", image=np.ones(1))


async def test_streams_do_not_need_generators() -> None:
    """Whatever a `streaming=True` function returns is iterated, as in BlazeRPC."""
    app = BlazeApp()

    @app.model("words", streaming=True)
    def words(prompt: str) -> str:
        return iter(prompt.split())  # type: ignore[return-value]

    @app.model("typed", streaming=True)
    async def typed(prompt: str) -> AsyncIterator[str]:
        yield prompt

    @app.model("unmarked")
    def unmarked(prompt: str) -> str:
        yield prompt

    async with testing.run(app) as models:
        for model, wanted in (("words", ["a", "b"]), ("typed", ["a b"]), ("unmarked", ["a b"])):
            found = [
                response.outputs[0].data.flat()[0] async for response in models.stream(model, prompt="a b")
            ]
            assert found == wanted
