"""ModelStreamInfer: its dialects, and the choice of a dialect for each stream."""

import logging
from collections.abc import Mapping

from ...dataplane.access import Action
from ...dataplane.dataplane import DataPlane
from ...errors import Unsupported
from ...extensions.entries import STREAM_DIALECTS
from ...extensions.loading import leave_out, load_group
from ...protos import dataplane_pb2 as pb
from ...protos.dialects import HEADER, parse_dialect
from ...settings import Settings
from ...types import Headers
from .context import caller_of
from .dialects.dialect import StreamDialect, StreamExchange, StreamRequest
from .dialects.mlserver import MLServerDialect
from .service import RpcService

logger = logging.getLogger("inferstream.grpc")

Dialects = Mapping[str, type[StreamDialect]]


def load_stream_dialects(strict: bool) -> Dialects:
    """Return all dialects by name, in the order in which they inspect the first request.

    The protocol dialect is last. An invalid dialect of a plug-in is skipped. If `strict` is true, it raises
    InvalidSettings.
    """
    own = MLServerDialect
    dialects: dict[str, type[StreamDialect]] = {}
    taken = {own.name, *own.aliases}
    for plugin, kind in load_group(STREAM_DIALECTS, strict):
        if not (isinstance(kind, type) and issubclass(kind, StreamDialect)):
            leave_out(plugin, "it is not a subclass of StreamDialect", strict)
        elif kind.name != plugin.name:
            leave_out(plugin, f'its name is "{kind.name}"', strict)
        elif clash := taken & {kind.name, *kind.aliases}:
            leave_out(plugin, f'another dialect has the name "{min(clash)}"', strict)
        else:
            dialects[kind.name] = kind
            taken |= {kind.name, *kind.aliases}
    return {**dialects, own.name: own}


def choose_dialect(dialects: Dialects, first: StreamRequest, metadata: Headers, default: str) -> str:
    """Choose the dialect of a stream by its metadata and first request, or `default`. Returns its name.

    The response types look the same on the wire, so the choice must precede the first response. Raises
    InvalidRequest for an unknown dialect.
    """
    if asked := metadata.get(HEADER):
        return parse_dialect(asked, {name: dialect.aliases for name, dialect in dialects.items()}) or default
    for dialect in dialects.values():
        if dialect.is_certain(first, metadata):
            return dialect.name
    for dialect in dialects.values():
        if dialect.is_likely(first, metadata):
            return dialect.name
    return default


class StreamService(RpcService):
    """The bidirectional inference RPC, in one of several dialects per stream."""

    descriptor = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"]
    actions = {"ModelStreamInfer": Action.STREAM}
    own_checks = ("ModelStreamInfer",)

    def __init__(self, dataplane: DataPlane, settings: Settings) -> None:
        self._dataplane = dataplane
        self._default = settings.grpc_stream_dialect
        self._dialects = load_stream_dialects(settings.strict)
        self._serving = {
            name: dialect(dataplane, settings.status_profile) for name, dialect in self._dialects.items()
        }

    async def ModelStreamInfer(self, exchange: StreamExchange) -> None:
        caller = caller_of(exchange.context, self._dataplane.access)
        # Checked first, because later rejections are sent as messages of the stream.
        self._dataplane.access.check(Action.STREAM, caller)
        message = await exchange.read()
        if message is None:
            return
        first = await StreamRequest.admitted_of(message, self._dataplane, caller)
        if first.admission is not None:
            default = first.admission.pipeline.settings.grpc_stream_dialect
        else:
            default = self._dataplane.stream_dialect(message.model_name)
        name = choose_dialect(self._dialects, first, caller.headers, default or self._default)
        logger.debug("stream for model %s uses dialect %s", message.model_name, name)
        if (dialect := self._serving.get(name)) is None:
            raise Unsupported(f'grpc_stream_dialect: the dialect "{name}" cannot be used')
        await dialect.serve(first, exchange, caller)
