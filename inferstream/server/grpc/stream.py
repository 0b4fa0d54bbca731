"""ModelStreamInfer: its dialects, and the choice of a stream's dialect."""

import logging

from ...dataplane.access import Action
from ...dataplane.dataplane import DataPlane
from ...protos.dialects import HEADER, asked_dialect
from ...protos.grpc_requests import InferMessage
from ...settings import Settings
from ...types import Headers
from .context import caller_of
from .dialects.dialect import StreamDialect, StreamExchange, StreamRequest
from .dialects.mlserver import MLServerDialect
from .dialects.triton import TritonDialect

logger = logging.getLogger("inferstream.grpc")

DIALECTS: tuple[type[StreamDialect], ...] = (TritonDialect, MLServerDialect)
"""Every dialect, in the order in which they are tried on the first request."""


def dialect_of(message: InferMessage, metadata: Headers, default: str) -> str:
    """The name of a stream's dialect, from its metadata and first request, else `default`.

    The response types look the same on the wire, so the choice must precede the first response.
    Raises InvalidRequest for an unknown dialect.
    """
    if (named := asked_dialect(metadata.get(HEADER))) is not None:
        return named
    for dialect in DIALECTS:
        if dialect.is_certain(message, metadata):
            return dialect.name
    for dialect in DIALECTS:
        if dialect.is_likely(message, metadata):
            return dialect.name
    return default


class StreamService:
    """The bidirectional RPC, with one of several response types for each stream."""

    def __init__(self, dataplane: DataPlane, settings: Settings) -> None:
        self._dataplane = dataplane
        self._default = settings.grpc_stream_dialect
        self._dialects = {dialect.name: dialect(dataplane, settings.status_profile) for dialect in DIALECTS}

    async def ModelStreamInfer(self, exchange: StreamExchange) -> None:
        caller = caller_of(exchange.context, self._dataplane.access)
        self._dataplane.access.check(Action.STREAM, caller)  # a later refusal is a message of the stream
        message = await exchange.read()
        if message is None:
            return
        first = await StreamRequest.admitted_of(message, self._dataplane, caller)
        if first.admission is not None:
            default = first.admission.pipeline.settings.grpc_stream_dialect
        else:
            default = self._dataplane.stream_dialect(message.model_name)
        name = dialect_of(message, caller.headers, default or self._default)
        logger.debug("a stream for model %s speaks %s's dialect", message.model_name, name)
        await self._dialects[name].serve(first, exchange, caller)
