"""ORCA's reports as clients of HTTP and gRPC read them."""

import json
import socket
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import pytest
from h2.connection import H2Connection
from h2.events import TrailersReceived

from inferstream.plugins.kubernetes.protos.orca_load_report_pb2 import OrcaLoadReport
from inferstream.plugins.kubernetes.protos.orca_request_pb2 import OrcaLoadReportRequest
from inferstream.protos.dataplane_pb2 import ModelInferRequest
from tests.grpc_web import BINARY, SERVICE, ended, framed, headers_of
from tests.serving import Running, fp32, text, write_model

TRAILER = "endpoint-load-metrics-bin"
ASKED = {"endpoint_load_metrics_format": "text"}
ASKING = {"endpoint-load-metrics-format": "json"}


def run(folder: Path, reports: str, *flags: str) -> Running:
    write_model(folder, "echo", "faulty_models.Echo", name="echo")
    write_model(folder, "streaming", "faulty_models.Streaming", name="streaming")
    (folder / "settings.json").write_text(json.dumps({"load_reports": reports}))
    return Running(folder, *flags)


@pytest.fixture(scope="module")
def always(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = run(tmp_path_factory.mktemp("always") / "models", "always")
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = run(tmp_path_factory.mktemp("asked") / "models", "asked")
    yield running
    assert running.stop() == 0, running.text()


def read(value: bytes) -> OrcaLoadReport:
    report = OrcaLoadReport.FromString(value)
    assert report.named_metrics["inferstream.waiting"] == 0
    return report


def trailers(server: Running, method: str, **metadata: str) -> list[tuple[str, str]]:
    """The last headers of an RPC. The library of gRPC keeps reports for its load balancing, so this reads HTTP/2."""
    request = ModelInferRequest(model_name="echo")
    tensor = request.inputs.add(name="x", datatype="FP32", shape=[1])
    tensor.contents.fp32_contents.append(1.0)
    message = request.SerializeToString() if method != "ServerLive" else b""
    client = H2Connection()
    client.initiate_connection()
    head = {
        ":method": "POST",
        ":scheme": "http",
        ":authority": server.grpc,
        ":path": f"/inference.GRPCInferenceService/{method}",
        "content-type": "application/grpc",
        "te": "trailers",
        **{name.replace("_", "-"): value for name, value in metadata.items()},
    }
    client.send_headers(1, [*head.items()])
    client.send_data(1, b"\0" + len(message).to_bytes(4, "big") + message, end_stream=True)
    host, port = server.grpc.split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        while True:
            connection.sendall(client.data_to_send())
            for event in client.receive_data(connection.recv(65536)):
                if isinstance(event, TrailersReceived):
                    return [(name.decode(), value.decode()) for name, value in event.headers]


def reports_of(server: Running, method: str, **metadata: str) -> list[OrcaLoadReport]:
    """The reports in the trailers of an RPC that ends well."""
    found = trailers(server, method, **metadata)
    assert ("grpc-status", "0") in found
    return [read(b64decode(value + "==")) for name, value in found if name == TRAILER]


def test_every_response_has_report_if_enabled_for_all(always: Running) -> None:
    single = always.infer("echo", fp32([1.0]))
    read(b64decode(single.headers["endpoint-load-metrics"].removeprefix("BIN ")))
    stream = always.infer("streaming", text(), "infer_stream")
    read(b64decode(stream.headers["endpoint-load-metrics"].removeprefix("BIN ")))
    for method in ("ModelInfer", "ModelStreamInfer"):
        assert len(reports_of(always, method)) == 1  # clients take none of several
    assert reports_of(always, "ServerLive") == []


def test_report_format_follows_request(asked: Running) -> None:
    found = asked.infer("echo", fp32([1.0]), headers=ASKING).headers["endpoint-load-metrics"]
    assert json.loads(found.removeprefix("JSON "))["named_metrics"]["inferstream.waiting"] == 0
    assert "endpoint-load-metrics" not in asked.infer("echo", fp32([1.0])).headers
    assert (
        len(reports_of(asked, "ModelInfer", **ASKED))
        == len(reports_of(asked, "ModelStreamInfer", **ASKED))
        == 1
    )
    assert reports_of(asked, "ModelInfer") == []


def test_calls_and_failures_are_counted_per_second(asked: Running) -> None:
    with grpc.insecure_channel(asked.grpc) as channel:
        reports = stream_of(channel, seconds=0.1)
        next(reports)
        asked.infer("echo", fp32([1.0]))
        while not (report := next(reports)).rps_fractional:
            asked.infer("echo", fp32([1.0]))
        assert report.cpu_utilization > 0


def stream_of(channel: grpc.Channel, seconds: float) -> Iterator[OrcaLoadReport]:
    method = channel.unary_stream(
        "/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics",
        OrcaLoadReportRequest.SerializeToString,
        OrcaLoadReport.FromString,
    )
    request = OrcaLoadReportRequest()
    request.report_interval.nanos = int(seconds * 1e9)
    return iter(method(request, timeout=20))


def test_grpc_web_has_report_in_trailers(always: Running) -> None:
    request = framed(ModelInferRequest(model_name="echo").SerializeToString())
    path = f"{always.url}/{SERVICE}/ModelInfer"
    found = ended(httpx.post(path, content=request, headers=headers_of(BINARY))).trailers[TRAILER]
    read(b64decode(found + "=="))


def test_reports_are_disabled_by_default(tmp_path: Path) -> None:
    server = run(tmp_path / "models", "off")
    try:
        assert "endpoint-load-metrics" not in server.infer("echo", fp32([1.0]), headers=ASKING).headers
        assert reports_of(server, "ModelInfer", **ASKED) == []
        with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError) as refused:
            next(stream_of(channel, 1))
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert httpx.get(f"{server.url}/v2/load").status_code == 200
    finally:
        assert server.stop() == 0
