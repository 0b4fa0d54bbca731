"""Which coroutines are known never to let the event loop go on."""

import asyncio
import functools
from types import ModuleType

import numpy as np
import pytest

from inferstream import MLModel
from inferstream.codecs import decode_args
from inferstream.model import StepModel
from inferstream.repository import suspension
from inferstream.repository.suspension import may_suspend, never_suspends
from inferstream.repository.uri import get_model_uri


async def compute(value):
    return value


async def compute_through(value):
    return await compute(value)


async def wait():
    await asyncio.sleep(0)


def sync_but_awaitable():
    return asyncio.sleep(0)


def timed(function):
    @functools.wraps(function)
    async def wrapper(*arguments):
        return await function(*arguments)

    return wrapper


def logged(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        return function(*arguments)

    return wrapper


def slow(function):
    @functools.wraps(function)
    async def wrapper(*arguments):
        await asyncio.sleep(0)
        return await function(*arguments)

    return wrapper


class Base(MLModel):
    async def prepare(self, payload):
        return payload

    async def predict(self, payload):
        return payload


class Plain(Base):
    pass


class Helped(Base):
    async def predict(self, payload):
        return await self.prepare(await compute_through(payload))


class Inherits(Base):
    async def predict(self, payload):
        return await super().predict(payload)


class Decorated(Base):
    @timed
    async def predict(self, payload):
        return payload


class DecoratedSync(Base):
    @logged
    async def predict(self, payload):
        return payload


class Decoded(MLModel):
    @decode_args
    async def predict(self, x: np.ndarray) -> np.ndarray:
        return x


class Recursive(MLModel):
    async def predict(self, payload):
        return await self.predict(payload)


class Defines(MLModel):
    async def predict(self, payload):
        async def never_called():
            await asyncio.sleep(1)

        return never_called


class Streams(MLModel):
    async def predict_stream(self, payloads):
        async for payload in payloads:
            yield payload


class TakesOne(MLModel):
    async def predict_stream(self, payloads):
        payload = await anext(aiter(payloads))
        rest = [payload async for payload in payloads]
        async for item in self.parts(payload, rest):
            yield item

    async def parts(self, payload, rest):
        yield payload
        await payloads_of(rest)


async def payloads_of(rest):
    return rest


class PassesOn(MLModel):
    async def predict_stream(self, payloads):
        async for item in self.each(payloads):
            yield item

    async def each(self, requests):
        async for request in requests:
            yield request


class DecodedStream(MLModel):
    @decode_args
    async def predict_stream(self, prompt: list[str]):
        yield prompt


class BlockingStreamBeside(Plain):
    def predict_stream(self, payloads):
        yield from payloads


class Waits(Base):
    async def predict(self, payload):
        await wait()


class WaitsInside(Base):
    async def prepare(self, payload):
        await asyncio.sleep(0)

    async def predict(self, payload):
        return await self.prepare(payload)


class WaitsForAttribute(Base):
    async def predict(self, payload):
        return await self.client.get(payload)


class WaitsForWhatItIsGiven(Base):
    async def predict(self, payload):
        await payload


class WaitsForLocal(Base):
    async def predict(self, payload):
        compute = asyncio.sleep
        await compute(0)


class Locks(Base):
    async def predict(self, payload):
        async with self.lock:
            return payload


class WaitsForOther(Base):
    async def predict(self, payload):
        await sync_but_awaitable()


class SlowDecorator(Base):
    @slow
    async def predict(self, payload):
        return payload


class WaitsInStream(Plain):
    async def predict_stream(self, payloads):
        async for payload in payloads:
            await asyncio.sleep(0)
            yield payload


class IteratesOverOther(MLModel):
    async def predict_stream(self, payloads):
        async for item in self.source:
            yield item


class Blocking(MLModel):
    def predict(self, payload):
        return payload


class Steps(StepModel):
    async def admit(self, request):
        return request

    async def step(self, states):
        return states


NEVER = [
    Plain,
    Helped,
    Inherits,
    Decorated,
    DecoratedSync,
    Decoded,
    Recursive,
    Defines,
    Streams,
    TakesOne,
    PassesOn,
    DecodedStream,
    BlockingStreamBeside,
]
MAYBE = [
    Waits,
    WaitsInside,
    WaitsForAttribute,
    WaitsForWhatItIsGiven,
    WaitsForLocal,
    Locks,
    WaitsForOther,
    SlowDecorator,
    WaitsInStream,
    IteratesOverOther,
    Blocking,
    Steps,
    MLModel,
]


@pytest.mark.parametrize("model", NEVER, ids=lambda model: model.__name__)
def test_a_coroutine_that_waits_for_nothing_is_known_to(model: type[MLModel]) -> None:
    assert never_suspends(model)


@pytest.mark.parametrize("model", MAYBE, ids=lambda model: model.__name__)
def test_a_coroutine_that_may_wait_is_not(model: type[MLModel]) -> None:
    assert not never_suspends(model)


class Lazy(type):
    def __getattr__(cls, name):
        raise ImportError(name)


class Strange(Base, metaclass=Lazy):
    """Raises when it is asked for what it has not."""

    async def predict(self, payload):
        return await self.nowhere(payload)


class Partial(Base):
    predict = functools.partial(compute)


@pytest.mark.parametrize("model", [Strange, Partial], ids=lambda model: model.__name__)
def test_code_that_nobody_foresaw_is_served_all_the_same(model: type[MLModel]) -> None:
    assert never_suspends(model) in (True, False)


def test_a_module_is_not_asked_for_what_it_would_import(monkeypatch: pytest.MonkeyPatch) -> None:
    lazy = ModuleType("lazy")
    lazy.__getattr__ = lambda name: pytest.fail(f"{name} was imported")  # type: ignore[method-assign]
    monkeypatch.setitem(globals(), "lazy", lazy)

    class Uses(MLModel):
        async def predict(self, payload):
            return await lazy.fetch(payload)

    assert not never_suspends(Uses)


def test_what_mlservers_runtimes_await_in_load_never_waits() -> None:
    class Loads(MLModel):
        async def load(self):
            self.uri = await get_model_uri(self.settings)
            return await super().load()

    assert not may_suspend(Loads.load, Loads)


def test_without_source_only_code_without_any_wait_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspension, "_source", lambda function: None)
    assert never_suspends(Plain)
    assert not never_suspends(Helped)


def test_source_that_has_changed_since_is_not_taken_for_the_code() -> None:
    namespace: dict = {}
    code = "async def predict(self, payload):\n    await payload\n"
    exec(compile(code, __file__, "exec"), namespace)  # line 1 of this file holds something else
    assert suspension._source(namespace["predict"]) is None
