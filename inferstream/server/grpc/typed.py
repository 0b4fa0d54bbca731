"""Typed RPCs of functions. The set of methods follows the loaded models."""

import logging
from collections.abc import Callable, Sequence
from contextlib import closing

from google.protobuf.descriptor_pool import DescriptorPool

from ...dataplane.access import Action
from ...dataplane.admission import Admission
from ...dataplane.call import INFER, STREAM
from ...dataplane.dataplane import DataPlane
from ...errors import InferstreamError, InvalidRequest, ModelNotReady
from ...protos.typed import PREFIX, Method, build_method
from ...protos.typed_files import build_pool, message_classes
from ...protos.typed_requests import RequestReader
from ...protos.typed_responses import ResponseWriter
from ...signature import Signature
from ...types import InferenceRequest, Parameters
from .context import RpcContext, TrailingHeaders, caller_of
from .dialects.dialect import LaterRequests
from .rpc import Rpc, RpcExchange

logger = logging.getLogger("inferstream.grpc")


class Received:
    """A message type that returns the bytes unparsed. The RPC parses them after its admission."""

    @staticmethod
    def FromString(data: bytes) -> bytes:
        return data


class TypedRpc:
    """Serves one typed RPC."""

    def __init__(self, dataplane: DataPlane, method: Method) -> None:
        request, response = message_classes(method)
        self.method = method
        self._dataplane = dataplane
        self._headers = TrailingHeaders()
        self._reader = RequestReader(method, request)
        self._writer = ResponseWriter(method, response)

    async def infer(self, data: bytes, context: RpcContext) -> bytes:
        """Serve one request with one response."""
        model, caller = self.method.model, caller_of(context, self._dataplane.access)
        try:
            admission = self._dataplane.admit(model, None, caller)
            admission.size = len(data)
            request = self._reader.read(data, admission.pipeline.form)
        except InferstreamError as error:
            self._dataplane.log_rejection(caller, "infer", model, error)
            raise
        reply = await admission.open(INFER, request)
        response = reply.first
        assert response is not None
        message = response.accept(self._writer)
        admission.count_response(len(message))
        self._headers.send(context, admission, response.id, response.parameters)
        return message

    async def stream(self, exchange: RpcExchange[bytes]) -> None:
        """Serve a call with a stream in one direction or both."""
        caller = caller_of(exchange.context, self._dataplane.access)
        try:
            admission = self._dataplane.admit(self.method.model, None, caller, Action.STREAM)
            data = await exchange.read()
            if data is None:
                if self.method.stream is None:
                    raise InvalidRequest(f"a call of {self.method.name} needs a {self.method.messages[0]}")
                data = b""  # a client may close its stream without a value
            admission.size = len(data)
            request = self._reader.read(data, admission.pipeline.form)
        except InferstreamError as error:
            self._dataplane.log_rejection(caller, "stream", self.method.model, error)
            raise
        if self.method.stream is None:
            await self._respond(admission, exchange, request, None)
            return
        with closing(LaterRequests(admission, exchange, request, self._reader.read_later, len)) as more:
            await self._respond(admission, exchange, request, more)

    async def _respond(
        self,
        admission: Admission,
        exchange: RpcExchange[bytes],
        request: InferenceRequest,
        more: LaterRequests[bytes] | None,
    ) -> None:
        usage = admission.usage
        last: tuple[str | None, Parameters | None] | None = None
        async with await admission.open(STREAM, request, more) as reply:
            async for response in reply:
                last = response.id, response.parameters
                message = response.accept(self._writer)
                if usage is not None:
                    usage.sent += len(message)
                await exchange.write(message)
                del response  # freed now, while it is in the CPU cache
        if last is not None:
            self._headers.send(exchange.context, admission, *last)


BuildRpc = Callable[[TypedRpc], Rpc]


class TypedServices:
    """The typed RPCs of all loaded models."""

    def __init__(self, dataplane: DataPlane, build: BuildRpc, unready: Rpc) -> None:
        self._dataplane = dataplane
        self._build = build
        self._unready = unready
        self._models: list[tuple[str, Signature]] = []
        self._built: dict[str, tuple[Signature, Method, Rpc]] = {}
        self._rpcs: dict[str, Rpc] = {}
        self._pools: list[DescriptorPool] | None = None

    def find(self, path: str) -> Rpc | None:
        """Return the RPC at a path, or None if no model has it."""
        if self._models is not self._dataplane.typed_models():
            self._publish()
        rpc = self._rpcs.get(path)
        if rpc is None and f"/{PREFIX}" in path and not self._dataplane.ready:
            return self._unready  # the model may be loading
        return rpc

    @property
    def names(self) -> Sequence[str]:
        """The names of the services."""
        return sorted({method.service for method in self._methods()})

    @property
    def pools(self) -> Sequence[DescriptorPool]:
        """The descriptors of the services, with one pool for each package."""
        methods = self._methods()
        if self._pools is None:
            packages: dict[str, list[Method]] = {}
            for method in methods:
                packages.setdefault(method.file, []).append(method)
            self._pools = [build_pool(its) for its in packages.values()]
        return self._pools

    def _methods(self) -> list[Method]:
        if self._models is not self._dataplane.typed_models():
            self._publish()
        return [method for _, method, _ in self._built.values()]

    def _publish(self) -> None:
        """Update the RPCs to match the loaded models. RPCs of unchanged models are reused."""
        self._models = self._dataplane.typed_models()
        known, self._built, self._pools = self._built, {}, None
        taken: dict[tuple[str, str], str] = {}
        for model, signature in self._models:
            built = known.get(model)
            if built is None or built[0] is not signature:
                built = self._build_method(model, signature)
            if built is None:
                continue
            other = taken.setdefault((built[1].package, built[1].messages[0]), model)
            if other == model:
                self._built[model] = built
            else:
                logger.error(
                    "model %s has no typed RPC: model %s has an RPC with the same name", model, other
                )
        self._rpcs = {method.path: rpc for _, method, rpc in self._built.values()}

    def _build_method(self, model: str, signature: Signature) -> tuple[Signature, Method, Rpc] | None:
        method = build_method(model, signature)
        if method is None:
            return None
        try:
            return signature, method, self._build(TypedRpc(self._dataplane, method))
        except TypeError as error:  # raised by protobuf for names that it does not support
            logger.error("model %s has no typed RPC: %s", model, error)
            return None


async def refuse(exchange: RpcExchange[bytes]) -> None:
    """Reject a call while models load."""
    raise ModelNotReady("of this RPC")
