"""The model of a request for a text that names none."""

import asyncio
import threading

import pytest

from inferstream import MLModel, ModelSettings
from inferstream.dataplane.caller import Caller
from inferstream.errors import InvalidRequest, ModelNotReady
from inferstream.server.application import Application
from inferstream.server.rest.dialects.tgi.dialect import Tgi
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
    dialect = Tgi(application._backend.dataplane, application.settings, application.meters)
    return dialect._default_model(CALLER)


async def test_it_is_the_only_model_that_returns_texts():
    vectors = [{"name": "vector", "datatype": "FP32", "shape": [3]}]
    models = [made(Words, "b"), made(Words, "a", outputs=vectors)]
    async with run(models, allow_open_repository=True) as app:
        assert default_of(app.application) == "b"
        await app.application._backend.dataplane.unload("b", CALLER)
        with pytest.raises(InvalidRequest, match="no model returns texts"):
            default_of(app.application)


async def test_of_several_the_settings_name_one():
    models = [made(Words, "b"), made(Words, "a"), made(Words, "c", openai=False)]
    async with run(models) as app:
        with pytest.raises(InvalidRequest, match="2 models return texts: a, b"):
            default_of(app.application)
    async with run(models, default_model="b") as app:
        assert default_of(app.application) == "b"


async def test_while_models_load_it_is_not_ready():
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
