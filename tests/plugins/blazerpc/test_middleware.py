"""Middleware of BlazeRPC."""

import asyncio
import logging
from typing import Any

import pytest

from inferstream import testing
from inferstream.errors import ModelError
from inferstream.ext.hosting import install_aliases

install_aliases()

from blazerpc import (
    BlazeApp,
    ValidationError,
)
from blazerpc.server.middleware import (  # type: ignore[import-not-found]
    LoggingMiddleware,
    Middleware,
    OTelMetricsMiddleware,
)


class Recording(Middleware):
    def __init__(self, name: str, seen: list[Any]) -> None:
        self._name = name
        self._seen = seen

    async def on_request(self, event: Any) -> None:
        self._seen.append((self._name, "request", event.method_name))

    async def on_response(self, event: Any) -> None:
        self._seen.append((self._name, event.status.name, event.status_message))


async def test_middleware_runs_in_list_order() -> None:
    seen: list[Any] = []
    app = BlazeApp(middleware=[Recording("a", seen), Recording("b", seen)])

    @app.model("half")
    def half(n: int) -> int:
        if n % 2:
            raise ValidationError("odd")
        return n // 2

    @app.model("count", streaming=True)
    async def count(n: int) -> int:
        for i in range(n):
            yield i

    path = "/blazerpc.InferenceService/PredictHalf"
    async with testing.run(app) as models:
        await models.infer("half", n=2)
        assert seen == [("a", "request", path), ("b", "request", path), ("a", "OK", None), ("b", "OK", None)]
        seen.clear()
        with pytest.raises(ModelError):
            await models.infer("half", n=1)
        assert seen[2:] == [("a", "INVALID_ARGUMENT", "odd"), ("b", "INVALID_ARGUMENT", "odd")]
        seen.clear()
        stream = models.stream("count", n=9)
        await anext(stream)
        await stream.aclose()
        async with asyncio.timeout(10):
            while len(seen) < 4:
                await asyncio.sleep(0)
        assert [status for _, status, _ in seen[2:]] == ["CANCELLED", "CANCELLED"]


async def test_failure_in_middleware_exit_keeps_response(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Fails(LoggingMiddleware):
        async def on_response(self, event: Any) -> None:
            raise RuntimeError("broken")

    app = BlazeApp(middleware=[Fails()])

    @app.model("echo")
    def echo(n: int) -> int:
        return n

    async with testing.run(app) as models:
        assert (await models.infer("echo", n=2)).outputs[0].data.flat() == [2]
    assert "on_response of Fails failed" in caplog.text


async def test_opentelemetry_metrics() -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.metrics")
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    provider = sdk.MeterProvider([reader])
    app = BlazeApp(middleware=[OTelMetricsMiddleware(provider.get_meter("test"))])

    @app.model("echo")
    def echo(n: int) -> int:
        return n

    async with testing.run(app) as models:
        await models.infer("echo", n=2)
    data = reader.get_metrics_data()
    assert data is not None
    metrics = {
        metric.name: metric.data.data_points[0]
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
    }
    labels = {"method": "/blazerpc.InferenceService/PredictEcho", "status": "0"}
    assert (metrics["blazerpc.rpc.count"].value, metrics["blazerpc.rpc.count"].attributes) == (1, labels)
    assert metrics["blazerpc.rpc.duration"].count == 1
    provider.shutdown()


async def test_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "blazerpc.middleware")
    app = BlazeApp(middleware=[LoggingMiddleware()])

    @app.model("echo")
    def echo(n: int) -> int:
        return n

    async with testing.run(app) as models:
        await models.infer("echo", n=2)
    path = "/blazerpc.InferenceService/PredictEcho"
    assert [record.getMessage() for record in caplog.records if record.name == "blazerpc.middleware"] == [
        f"RPC request: {path} from unknown",
        f"RPC response: {path} status=OK message=",
    ]
