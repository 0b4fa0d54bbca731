"""ModelStreamInfer: which dialect a stream speaks, and MLServer's of the two."""

import logging
from collections.abc import AsyncIterator
from typing import Any

from ...concurrency.interruption import Reminder
from ...dataplane.admission import Admission
from ...dataplane.call import Operation
from ...dataplane.dataplane import DataPlane
from ...protos.dialects import HEADER, Dialect, asked_dialect
from ...protos.grpc import request_from, wants_typed
from ...protos.grpc_responses import dump_response
from ...settings import Settings
from ...types import Headers, InferenceRequest
from .context import TrailingHeaders, deadline_of, headers_of, priority_of
from .rpc import RpcExchange
from .triton import TritonStream, admission_of

logger = logging.getLogger("inferstream.grpc")

_TRITON_HINTS = ("sequence_id", "shared_memory_region", "classification")

_TRITON_AGENTS = ("grpc-python", "grpc-c++")
"""What Triton's own clients are built on. A program's own name may stand before it in the user agent."""


def dialect_of(message: Any, metadata: Headers, default: Dialect) -> Dialect:
    """The dialect of a stream, from its metadata and first request; `default` if neither is a hint.

    The two response types cannot be told apart on the wire, so one has to be chosen before the first response.
    Raises InvalidRequest for a dialect that is not known.
    """
    if (asked := asked_dialect(metadata.get(HEADER))) is not None:
        return asked
    if "triton_grpc_error" in metadata or any(name.startswith("triton_") for name in message.parameters):
        return "triton"
    if any("content_type" in tensor.parameters for tensor in message.inputs):
        return "mlserver"
    if message.raw_input_contents and _may_be_tritons(metadata.get("user-agent", "")):
        return "triton"
    tensors = (message, *message.inputs, *message.outputs)
    if any(hint in tensor.parameters for tensor in tensors for hint in _TRITON_HINTS):
        return "triton"
    return default


def _may_be_tritons(agent: str) -> bool:
    """Whether a user agent can be one of Triton's clients; stubs of other languages read the type in the .proto."""
    return any(product.startswith(_TRITON_AGENTS) for product in agent.split())


async def _say(exchange: RpcExchange, dialect: Dialect) -> None:
    """Send the initial metadata, which names the dialect of the responses."""
    await exchange.context.send_initial_metadata(((HEADER, dialect),))


class StreamService:
    """The bidirectional RPC, whose answers are of one of two types, chosen per stream."""

    def __init__(self, dataplane: DataPlane, settings: Settings) -> None:
        self._dataplane = dataplane
        self._headers = TrailingHeaders(dataplane.events)
        self._profile = settings.status_profile
        self._default = settings.grpc_stream_dialect

    async def ModelStreamInfer(self, exchange: RpcExchange) -> None:  # noqa: N802  # the RPC's name
        message = await exchange.read()
        if message is None:
            return
        metadata = headers_of(exchange.context)
        admission = admission_of(self._dataplane, message)
        if isinstance(admission, Admission):
            default = admission.stream_dialect
        else:
            default = self._dataplane.stream_dialect(message.model_name)
        dialect = dialect_of(message, metadata, default or self._default)
        logger.debug("a stream for model %s speaks %s's dialect", message.model_name, dialect)
        with Reminder():
            if dialect == "triton":
                await _say(exchange, dialect)  # at once: nearly every failure is a response in band
                await TritonStream(self._dataplane, self._profile, exchange, metadata).run(message, admission)
            elif isinstance(admission, Admission):
                await self._one_call(admission, message, exchange, metadata)
            else:
                raise admission

    async def _one_call(
        self, admission: Admission, message: Any, exchange: RpcExchange, metadata: Headers
    ) -> None:
        """MLServer's dialect: the stream is one call, its first request chooses the model."""
        request = request_from(message)
        call = admission.call(
            Operation.STREAM,
            request,
            metadata,
            more=self._requests_after(admission, exchange, request, metadata),
            deadline=deadline_of(exchange.context),
            priority=priority_of(metadata),
        )
        typed = wants_typed(message)
        response = None
        async with await admission.open(call) as reply:
            # Not before a response is there: a client may retry a call that has failed without any metadata.
            await _say(exchange, "mlserver")
            async for response in reply:
                await exchange.write(dump_response(response, typed))
        if response is not None:
            self._headers.send(exchange.context, response, admission.model)

    async def _requests_after(
        self, admission: Admission, exchange: RpcExchange, first: InferenceRequest, metadata: Headers
    ) -> AsyncIterator[InferenceRequest]:
        """The requests after the first; all of one stream share its id."""
        async for message in exchange:
            request = request_from(message)
            request.__dict__["id"] = first.id
            admission.identify(request, metadata)
            yield request
