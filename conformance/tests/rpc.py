"""The gRPC face of the reference server."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from engine import DECLARED, EXTENSIONS, Engine, Refusal, Tensor, text_tensor
from mutations import mutate_message, mutate_stream
from oip_conformance.messages import TABLE, message
from oip_conformance.outcome import Difference
from oip_conformance.tensors import DATATYPES

CODES = {400: grpc.StatusCode.INVALID_ARGUMENT, 404: grpc.StatusCode.NOT_FOUND, 500: grpc.StatusCode.INTERNAL}


class Service(grpc.GenericRpcHandler):
    """Answers calls by name."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def service(self, details: Any) -> Any:
        method = details.method.rpartition("/")[2]
        if method == "ModelStreamInfer":
            return grpc.stream_stream_rpc_method_handler(
                self._stream, message("ModelInferRequest").FromString, lambda data: data
            )
        if f"{method}Request" not in TABLE:
            return self._unknown() if "unknown-method-is-internal" in self.engine.wrong else None
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: self._unary(method, request, context),
            message(f"{method}Request").FromString,
            lambda response: response.SerializeToString(),
        )

    def _unknown(self) -> Any:
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: context.abort(grpc.StatusCode.INTERNAL, "no such method")
        )

    def _unary(self, method: str, request: Any, context: Any) -> Any:
        response = message(f"{method}Response")()
        try:
            getattr(self, method)(request, response)
        except Refusal as refusal:
            if "rpc-errors-are-ok" in self.engine.wrong:
                return response
            text = "" if "rpc-errors-without-text" in self.engine.wrong else str(refusal)
            context.abort(CODES.get(refusal.status, grpc.StatusCode.UNAVAILABLE), text)
        return mutate_message(self.engine.wrong, response)

    def ServerLive(self, request: Any, response: Any) -> None:
        response.live = True

    def ServerReady(self, request: Any, response: Any) -> None:
        response.ready = True

    def ModelReady(self, request: Any, response: Any) -> None:
        if "rpc-unknown-is-ready" not in self.engine.wrong:
            self.engine.model(request.name, request.version)
        response.ready = True

    def ServerMetadata(self, request: Any, response: Any) -> None:
        response.name, response.version = "reference", "1.0"
        response.extensions.extend(EXTENSIONS)

    def ModelMetadata(self, request: Any, response: Any) -> None:
        response.name = self.engine.model(request.name, request.version)
        response.versions.append("1")
        response.platform = "p"
        for listed, declared in zip((response.inputs, response.outputs), DECLARED[request.name], strict=True):
            for name, datatype, shape in declared:
                listed.add(name=name, datatype=datatype, shape=shape)

    def ModelInfer(self, request: Any, response: Any) -> None:
        name = self.engine.model(request.model_name, request.model_version)
        wanted = [output.name for output in request.outputs]
        outputs = self.engine.infer(name, inputs_of(request), wanted)
        fill(response, request, outputs, bool(request.raw_input_contents))

    def RepositoryIndex(self, request: Any, response: Any) -> None:
        for entry in self.engine.index(request.ready):
            response.models.add(**entry)

    def RepositoryModelLoad(self, request: Any, response: Any) -> None:
        self.engine.load(request.model_name, True)

    def RepositoryModelUnload(self, request: Any, response: Any) -> None:
        self.engine.load(request.model_name, False)

    def ModelStatistics(self, request: Any, response: Any) -> None:
        response.model_stats.add(name=request.name, inference_count=self.engine.count)

    def _stream(self, requests: Iterator[Any], context: Any) -> Iterator[bytes]:
        try:
            yield from mutate_stream(self.engine.wrong, self._responses(requests))
        except Refusal as refusal:
            if "rpc-failure-is-ok" not in self.engine.wrong:
                context.abort(CODES[refusal.status], str(refusal))

    def _responses(self, requests: Iterator[Any]) -> Iterator[Any]:
        for request in requests:
            inputs = inputs_of(request)
            if "content_type" in request.inputs[0].parameters:
                for word in self.engine.words(inputs):
                    yield fill(message("ModelInferResponse")(), request, [text_tensor(word)], False)
                continue
            try:
                for word in self.engine.words(inputs):
                    yield envelope(request, [text_tensor(word)], False)
                if request.parameters["triton_enable_empty_final_response"].bool_param:
                    yield envelope(request, [], True)
            except Refusal as refusal:
                part = envelope(request, [], True)
                part.error_message = str(refusal)
                yield part


def envelope(request: Any, outputs: list[Tensor], final: bool) -> Any:
    part = message("ModelStreamInferResponse")()
    fill(part.infer_response, request, outputs, True)
    part.infer_response.parameters["triton_final_response"].bool_param = final
    return part


def fill(response: Any, request: Any, outputs: list[Tensor], raw: bool) -> Any:
    response.model_name, response.model_version, response.id = request.model_name, "1", request.id
    for output in outputs:
        part = response.outputs.add(name=output.name, datatype=output.datatype, shape=output.shape)
        datatype = DATATYPES[output.datatype]
        if raw or datatype.field is None:
            response.raw_output_contents.append(datatype.pack(output.values))
        else:
            values = [value.encode() if isinstance(value, str) else value for value in output.values]
            getattr(part.contents, datatype.field).extend(values)
    return response


def inputs_of(request: Any) -> list[Tensor]:
    raw, typed = list(request.raw_input_contents), [part.contents.ListFields() for part in request.inputs]
    if raw and (any(typed) or len(raw) != len(request.inputs)):
        raise Refusal(400, "raw or typed contents")
    tensors = []
    for index, part in enumerate(request.inputs):
        datatype = DATATYPES.get(part.datatype)
        if datatype is None:
            raise Refusal(400, f"unknown datatype {part.datatype}")
        if raw:
            values = unpacked(part.datatype, raw[index])
        else:
            if [field.name for field, _ in typed[index]] != [datatype.field]:
                raise Refusal(400, f"contents of another datatype than {part.datatype}")
            values = [
                v.decode() if isinstance(v, bytes) else v
                for v in getattr(part.contents, datatype.field or "")
            ]
        tensors.append(Tensor(part.name, part.datatype, list(part.shape), values))
    return tensors


def unpacked(datatype: str, data: bytes) -> list[Any]:
    try:
        values = DATATYPES[datatype].unpack(data)
    except Difference as error:
        raise Refusal(400, str(error)) from error
    if len(DATATYPES[datatype].pack(values)) != len(data):
        raise Refusal(400, "bytes that do not divide")
    return values


def rpc_server(engine: Engine) -> tuple[grpc.Server, int]:
    """The face on a free port of loopback."""
    server = grpc.server(ThreadPoolExecutor(4), handlers=[Service(engine)])
    return server, server.add_insecure_port("127.0.0.1:0")
