"""Functions served in process: a call by values, and its values."""
# names of dimensions are no names of types

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import numpy as np

from inferstream import (
    App,
    Headers,
    InferenceResponse,
    testing,
)
from inferstream.codecs.values.declared import value_of_tensor
from inferstream.dataplane.caller import Caller
from inferstream.types import InferenceRequest


async def answer(app: App, model: str, **arguments: Any) -> Any:
    """The values of one response, or the only one."""
    async with testing.run(app) as client:
        response = await client.infer(model, request_of(client, model, **arguments))
        return values_of(client, model, response)


async def items(app: App, model: str, **arguments: Any) -> list[Any]:
    async with testing.run(app) as client:
        request = request_of(client, model, **arguments)
        return [values_of(client, model, response) async for response in client.stream(model, request)]


def request_of(client: testing.InProcess, model: str, **arguments: Any) -> InferenceRequest:
    declared = {
        t.name: t
        for t in client.application.models.admit(model, None, Caller(Headers(()), "")).signature.inputs or ()
    }
    inputs = [value_of_tensor(declared[name]).encode_input(name, value) for name, value in arguments.items()]
    return InferenceRequest(inputs=inputs)


def values_of(client: testing.InProcess, model: str, response: InferenceResponse) -> Any:
    declared = {
        t.name: t
        for t in client.application.models.admit(model, None, Caller(Headers(()), "")).signature.outputs or ()
    }
    found = {o.name: value_of_tensor(declared[o.name]).decode_output(o) for o in response.outputs}
    return found["output"] if list(found) == ["output"] else found


async def chunks(*values: int) -> AsyncIterator[InferenceRequest]:
    for value in values:
        await asyncio.sleep(0)
        yield InferenceRequest(inputs=[testing.encode("xs", np.array([value]))])


async def one(request: InferenceRequest) -> AsyncIterator[InferenceRequest]:
    yield request
