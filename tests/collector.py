"""A collector of spans and metrics, over the protocol that collectors speak."""

from concurrent import futures

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from tests.serving import eventually


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps every span it is sent, with the resource that sent it, and the last metrics of each process."""

    def __init__(self) -> None:
        self.spans: list = []
        self.resources: list[dict] = []
        self.metrics: dict[str, list] = {}
        """The metrics of the last push, by `service.instance.id`."""
        self.pushers: list[dict] = []
        """The resource of each push."""
        self._server = grpc.server(futures.ThreadPoolExecutor(2))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self, self._server)
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(_Metrics(self), self._server)
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def Export(self, request, context):
        for sent in request.resource_spans:
            self.resources.append(_values(sent.resource))
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

    def points(self, name: str, **attributes: str) -> list:
        """The points of a metric with these attributes, of all processes. `model_name` is `model.name`."""
        wanted = {key if "." in key else key.replace("_", "."): value for key, value in attributes.items()}
        found = []
        for metrics in [*self.metrics.values()]:
            for metric in metrics:
                if metric.name == name:
                    points = getattr(metric, metric.WhichOneof("data")).data_points
                    found += [point for point in points if wanted.items() <= _values(point).items()]
        return found

    def total(self, name: str, **attributes: str) -> int:
        """The sum of these points, of histograms that of their counts."""
        points = self.points(name, **attributes)
        return sum(point.count if hasattr(point, "count") else point.as_int for point in points)


class _Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def Export(self, request, context):
        for sent in request.resource_metrics:
            resource = _values(sent.resource)
            self._collector.pushers.append(resource)
            metrics = [metric for scope in sent.scope_metrics for metric in scope.metrics]
            self._collector.metrics[resource["service.instance.id"]] = metrics
        return metrics_service_pb2.ExportMetricsServiceResponse()


def _values(holder) -> dict:
    return {pair.key: pair.value.string_value for pair in holder.attributes}
