"""Which models keep nothing that belongs to the thread in which it was made."""

import functools
import logging

import numpy as np
import pytest

from inferstream import MLModel
from inferstream.codecs import NumpyCodec, decode_args
from inferstream.repository.retention import keeps_nothing
from inferstream.types import InferenceResponse

logger = logging.getLogger(__name__)
SCALE = 2.0
kept: dict = {}


def doubled(values):
    return values * SCALE


def remembered(value):
    global kept
    kept = {"last": value}
    return value


@functools.lru_cache
def connection():
    return object()


class Database:
    connection = None


class Echo(MLModel):
    async def predict(self, payload):
        array = NumpyCodec.decode_input(payload.inputs[0])
        logger.debug("%s", self.name)
        return InferenceResponse(
            model_name=self.name, outputs=[NumpyCodec.encode_output("y", doubled(array))]
        )


class Scaled(Echo):
    scale = 3

    @property
    def factor(self):
        return self.scale

    async def predict(self, payload):
        return np.ones(3) * self.factor


class Decoded(MLModel):
    @decode_args
    async def predict(self, x: np.ndarray) -> np.ndarray:
        return doubled(x)


class Streams(MLModel):
    async def predict_stream(self, payloads):
        async for payload in payloads:
            yield payload


class Loads(Echo):
    async def load(self):
        return True


class Constructs(Echo):
    def __init__(self, settings):
        super().__init__(settings)


class Unloads(Echo):
    async def unload(self):
        return True


class Assigns(MLModel):
    async def predict(self, payload):
        self.last = payload


class AssignsInside(MLModel):
    async def predict(self, payload):
        def keep():
            self.last = payload

        keep()


class Fills(MLModel):
    seen: dict = {}

    async def predict(self, payload):
        self.seen.setdefault("x", payload)


class CallsWhatKeeps(MLModel):
    async def predict(self, payload):
        return remembered(payload)


class CallsWhatCaches(MLModel):
    async def predict(self, payload):
        return connection()


class UsesAClassOfItsOwn(MLModel):
    async def predict(self, payload):
        return Database.connection


class UsesAnObject(MLModel):
    async def predict(self, payload):
        return kept.get(payload)


class ImportsSqlite(MLModel):
    async def predict(self, payload):
        import sqlite3

        self.connection = sqlite3.connect(":memory:")


class DecodedKeeps(MLModel):
    @decode_args
    async def predict(self, x: np.ndarray) -> np.ndarray:
        self.last = x
        return x


@pytest.mark.parametrize("model", [Echo, Scaled, Decoded, Streams], ids=lambda model: model.__name__)
def test_a_model_that_stores_nothing_keeps_nothing(model: type[MLModel]) -> None:
    assert keeps_nothing(model)


@pytest.mark.parametrize(
    "model",
    [
        Loads,
        Constructs,
        Unloads,
        Assigns,
        AssignsInside,
        Fills,
        CallsWhatKeeps,
        CallsWhatCaches,
        UsesAClassOfItsOwn,
        UsesAnObject,
        ImportsSqlite,
        DecodedKeeps,
    ],
    ids=lambda model: model.__name__,
)
def test_a_model_that_may_keep_something_is_not_taken_for_one_that_does_not(model: type[MLModel]) -> None:
    assert not keeps_nothing(model)
