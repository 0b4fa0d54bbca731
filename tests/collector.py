"""A collector of spans, over the protocol that collectors speak."""

from concurrent import futures

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from tests.serving import eventually


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps every span it is sent, with the resource that sent it."""

    def __init__(self) -> None:
        self.spans: list = []
        self.resources: list[dict] = []
        self._server = grpc.server(futures.ThreadPoolExecutor(2))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def Export(self, request, context):
        for sent in request.resource_spans:
            self.resources.append({pair.key: pair.value.string_value for pair in sent.resource.attributes})
            for scope in sent.scope_spans:
                self.spans.extend(scope.spans)
        return trace_service_pb2.ExportTraceServiceResponse()

    def stop(self) -> None:
        self._server.stop(None)

    def named(self, name: str, trace: str | None = None) -> list:
        return [span for span in self.spans if span.name == name and trace in (None, span.trace_id.hex())]

    def one(self, name: str, trace: str):
        """The span of this name in a trace, once it has come."""
        eventually(lambda: self.named(name, trace))
        (found,) = self.named(name, trace)
        return found
