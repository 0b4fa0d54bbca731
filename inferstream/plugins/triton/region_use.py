"""Inputs and outputs of a request in shared memory regions."""

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial

from inferstream.errors import InvalidRequest, PayloadTooLarge
from inferstream.ext.calls import Call, Handler, Reply, StageContext, StagedModel
from inferstream.ext.values import check_input
from inferstream.types import (
    InferenceRequest,
    InferenceResponse,
    Parameters,
    RequestInput,
    ResponseOutput,
    TensorData,
)

from .region_parameters import OFFSET, REGION, SIZE
from .regions import Place, Regions, find_regions

INLINE = 64 * 1024
"""Maximum number of bytes to write on the event loop. Larger writes use a thread."""


class RegionUse:
    """The tensors of one request that are in shared memory regions."""

    def __init__(self, outputs: dict[str, Place]) -> None:
        self._outputs = outputs

    @classmethod
    async def of(cls, regions: Regions, request: InferenceRequest, owner: str) -> "RegionUse":
        """Attach the inputs that are in regions to the request.

        `owner` is the request's principal, or empty if it has none.

        Inputs are read on first access. The call then occupies a slot, so the number of slots limits the
        memory of concurrent calls. For a worker, inputs are read directly into its arena.

        Raises InvalidRequest or PayloadTooLarge.
        """
        inputs = [
            await _find_place(regions, f'input "{tensor.name}"', tensor.parameters, owner)
            for tensor in request.inputs
        ]
        outputs: dict[str, Place] = {}
        for output in request.outputs or ():
            named = f'output "{output.name}"'
            if (place := await _find_place(regions, named, output.parameters, owner)) is not None:
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
        """Whether outputs are written to regions."""
        return bool(self._outputs)

    async def store(self, response: InferenceResponse) -> InferenceResponse:
        """Write outputs to their regions and return the response without their values.

        Raises InvalidRequest.
        """
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
            self._describe_external(tensor, len(raws[tensor.name])) if tensor.name in raws else tensor
            for tensor in response.outputs
        ]
        return InferenceResponse.of(
            response.model_name, outputs, response.model_version, response.id, response.parameters
        )

    def _write(self, raws: dict[str, bytes | memoryview]) -> None:
        for name, raw in raws.items():
            self._outputs[name].write(raw)

    def _describe_external(self, tensor: ResponseOutput, size: int) -> ResponseOutput:
        """Return an output without values, with the location in its parameters."""
        place = self._outputs[tensor.name]
        said = Parameters() if tensor.parameters is None else tensor.parameters
        where = {**(said.__pydantic_extra__ or {}), REGION: place.region.known.name, SIZE: size}
        if place.offset:
            where[OFFSET] = place.offset
        told = Parameters.of(where, said.content_type)
        return ResponseOutput.of(tensor.name, tensor.shape, tensor.datatype, TensorData.elsewhere(), told)


def _check(name: str, datatype: str, data: TensorData, shape: Sequence[int]) -> None:
    """Raise InvalidRequest, with the name of the input, if the values are invalid."""
    check_input(RequestInput.of(name, [*shape], datatype, data))


async def _find_place(
    regions: Regions, tensor: str, parameters: Parameters | None, owner: str
) -> Place | None:
    if parameters is None or REGION not in (parameters.__pydantic_extra__ or ()):
        return None
    return await regions.resolve_place(tensor, parameters, owner)


def build_region_handler(inner: Handler, shared: StageContext) -> Handler:
    """Build a handler that reads inputs from regions and writes outputs to them."""

    async def use_regions(call: Call) -> Reply:
        use = await RegionUse.of(find_regions(shared), call.request, call.principal or "")
        reply = await inner(call)
        return await reply.map(use.store) if use.writes else reply

    def handle(call: Call) -> Awaitable[Reply]:
        return use_regions(call) if REGION in call.request.references else inner(call)

    return handle


def add_region_stage(model: StagedModel, shared: StageContext) -> StagedModel:
    """Add the region stage, which is enabled for every model.

    Servers without shared memory reject tensors that refer to a region.
    """
    return model.around(build_region_handler(model.handler, shared))
