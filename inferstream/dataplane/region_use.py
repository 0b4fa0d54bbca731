"""The tensors of one request that are in regions of shared memory: how they are read, and where outputs go."""

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial

from inferstream.ext.calls import Call, Handler, Reply, StageContext, StagedModel
from inferstream.ext.values import check_input

from ..errors import InvalidRequest, PayloadTooLarge
from ..protos.regions import OFFSET, REGION, SIZE
from ..types import (
    InferenceRequest,
    InferenceResponse,
    Parameters,
    RequestInput,
    ResponseOutput,
    TensorData,
)
from .regions import Place, Regions, find_regions

INLINE = 64 * 1024
"""Bytes that are written on the event loop: a thread would cost more."""


class RegionUse:
    """What one request has in regions."""

    def __init__(self, outputs: dict[str, Place]) -> None:
        self._outputs = outputs

    @classmethod
    async def of(cls, regions: Regions, request: InferenceRequest, owner: str) -> "RegionUse":
        """Let the request read its inputs that are in regions. `owner` is its principal, or empty without keys.

        They are read when they are first asked for: by then the call has its slot, so slots bound the memory of many
        calls. A worker's go into its arena at once.

        Raises InvalidRequest, PayloadTooLarge.
        """
        inputs = [
            await _place(regions, f'input "{tensor.name}"', tensor.parameters, owner)
            for tensor in request.inputs
        ]
        outputs: dict[str, Place] = {}
        for output in request.outputs or ():
            named = f'output "{output.name}"'
            if (place := await _place(regions, named, output.parameters, owner)) is not None:
                outputs[output.name] = place
        size = sum(place.size for place in inputs if place is not None)
        if size > regions.limit:
            raise PayloadTooLarge(
                f"Inputs of {size} bytes are more than the {regions.limit} of max_body_bytes."
            )
        for tensor, place in zip(request.inputs, inputs, strict=True):
            if place is not None:
                check = partial(_check, tensor.name, tensor.datatype)
                tensor.data = TensorData.from_unread(place, tensor.datatype, check)
        request.resolve(REGION)
        return cls(outputs)

    @property
    def writes(self) -> bool:
        """Whether outputs go to regions."""
        return bool(self._outputs)

    async def store(self, response: InferenceResponse) -> InferenceResponse:
        """The response, whose outputs in regions are written there and have no values. Raises InvalidRequest."""
        raws = {
            tensor.name: tensor.data.to_raw(tensor.datatype)
            for tensor in response.outputs
            if tensor.name in self._outputs
        }
        for name, raw in raws.items():
            if len(raw) > (most := self._outputs[name].size):
                raise InvalidRequest(
                    f'output "{name}" has {len(raw)} bytes, and its place in the region {most}'
                )
        if sum(map(len, raws.values())) > INLINE:
            await asyncio.to_thread(self._write, raws)
        else:
            self._write(raws)
        outputs = [
            self._elsewhere(tensor, len(raws[tensor.name])) if tensor.name in raws else tensor
            for tensor in response.outputs
        ]
        return InferenceResponse.of(
            response.model_name, outputs, response.model_version, response.id, response.parameters
        )

    def _write(self, raws: dict[str, bytes | memoryview]) -> None:
        for name, raw in raws.items():
            self._outputs[name].write(raw)

    def _elsewhere(self, tensor: ResponseOutput, size: int) -> ResponseOutput:
        """An output without values, which says where they are."""
        place = self._outputs[tensor.name]
        said = Parameters() if tensor.parameters is None else tensor.parameters
        where = {**(said.__pydantic_extra__ or {}), REGION: place.region.known.name, SIZE: size}
        if place.offset:
            where[OFFSET] = place.offset
        told = Parameters.of(where, said.content_type)
        return ResponseOutput.of(tensor.name, tensor.shape, tensor.datatype, TensorData.elsewhere(), told)


def _check(name: str, datatype: str, data: TensorData, shape: Sequence[int]) -> None:
    """Raise InvalidRequest, naming the input, unless its values fit."""
    check_input(RequestInput.of(name, [*shape], datatype, data))


async def _place(regions: Regions, tensor: str, parameters: Parameters | None, owner: str) -> Place | None:
    if parameters is None or REGION not in (parameters.__pydantic_extra__ or ()):
        return None
    return await regions.place(tensor, parameters, owner)


def using_regions(inner: Handler, shared: StageContext) -> Handler:
    """A handler that brings the inputs that are in regions, and takes the outputs that go there."""

    async def use_regions(call: Call) -> Reply:
        use = await RegionUse.of(find_regions(shared), call.request, call.principal or "")
        reply = await inner(call)
        return await reply.map(use.store) if use.writes else reply

    def handle(call: Call) -> Awaitable[Reply]:
        return use_regions(call) if REGION in call.request.references else inner(call)

    return handle


def regions(model: StagedModel, shared: StageContext) -> StagedModel:
    """On for every model: a server without regions refuses the tensors that name one."""
    return model.around(using_regions(model.handler, shared))
