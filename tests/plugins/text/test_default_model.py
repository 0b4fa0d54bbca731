"""The model of a request for a text that names none."""

import asyncio
import threading

import pytest

from inferstream import Application, MLModel, ModelSettings
from inferstream.errors import InvalidRequest, ModelNotReady
from inferstream.ext.calls import Caller
from inferstream.plugins.text.tgi.dialect import Tgi
from inferstream.testing import run
from inferstream.types import Headers

CALLER = Caller(Headers(()), "")

TENSOR = {"name": "text", "datatype": "BYTES", "shape": [1]}


class Words(MLModel):
    async def predict_stream(self, payloads):
        yield "a"
        await asyncio.sleep(0)


def made(kind, name, **settings):
    return kind(
        ModelSettings(implementation=kind, name=name, inputs=[TENSOR], **{"outputs": [TENSOR], **settings})
    )


def default_of(application):
    dialect = Tgi(application.models, application.settings, application.meters)
    return dialect._default_model(CALLER)


async def test_default_is_the_only_text_model():
    vectors = [{"name": "vector", "datatype": "FP32", "shape": [3]}]
    models = [made(Words, "b"), made(Words, "a", outputs=vectors)]
    async with run(models) as app:
        assert default_of(app.application) == "b"
        await app.application.unload("b")
        with pytest.raises(InvalidRequest, match="no model returns texts"):
            default_of(app.application)


async def test_settings_select_default_of_several_models():
    models = [made(Words, "b"), made(Words, "a"), made(Words, "c", openai=False)]
    async with run(models) as app:
        with pytest.raises(InvalidRequest, match="2 models return texts: a, b"):
            default_of(app.application)
    async with run(models, default_model="b") as app:
        assert default_of(app.application) == "b"


async def test_default_model_is_not_ready_during_load():
    begun, end = threading.Event(), threading.Event()

    class Slow(Words):
        async def load(self):
            begun.set()
            await asyncio.to_thread(end.wait)

    application = Application([made(Slow, "slow")])
    starting = asyncio.create_task(application.start())
    await asyncio.to_thread(begun.wait)
    with pytest.raises(ModelNotReady, match="slow is not ready yet"):
        default_of(application)
    end.set()
    await starting
    assert default_of(application) == "slow"
    await application.stop()
