"""Load reports in the ORCA formats, which Envoy, gRPC and gateways use for load balancing."""

import os
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable, Iterable

import orjson

from inferstream.ext.calls import ServerParts

from .load import Loads, ServerLoad
from .settings import KubernetesSettings

FORMAT = "endpoint-load-metrics-format"
"""The request header that requests a report, with the value `text`, `json` or `bin`."""

HEADER = b"endpoint-load-metrics"
TRAILER = "endpoint-load-metrics-bin"

SERVICE = "xds.service.orca.v3.OpenRcaService"
"""The gRPC service that streams reports."""

FORMS = ("bin", "json", "text")

CORES = os.cpu_count() or 1

Numbers = dict[str, float]


class LoadReports:
    """The latest report in each format. It is encoded once for all responses within `FRESH` seconds."""

    def __init__(self, loads: Loads, always: bool) -> None:
        self._loads = loads
        self.always = always
        """Whether responses contain a report even if the client did not request one."""
        self._reported: ServerLoad | None = None
        self._written: dict[str, bytes] = {}

    def headers(self, asked: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Return the response headers for a request with these headers."""
        value = self.header(dict(asked).get(FORMAT.encode()))
        return [] if value is None else [(HEADER, value)]

    def header(self, form: bytes | None) -> bytes | None:
        """Return the header value for a client that requests `form`, or None if it does not receive a report.

        Unrequested reports use BIN, because every Envoy version that supports format prefixes accepts it.
        """
        name = "" if form is None else form.decode("latin-1").strip().lower()
        if name not in FORMS:
            if not self.always:
                return None
            name = "bin"
        return self._write(name)

    def trailer(self) -> bytes:
        """Return the report as a serialized protobuf message."""
        return self._write("message")

    async def stream_reports(self) -> AsyncGenerator[bytes]:
        """Yield serialized reports of the current load, with rates since the previous report."""
        latest, before = self._loads.recent()
        while True:
            yield serialize(*_numbers(latest, before))
            latest, before = await self._loads.current(ends=True), latest

    def _write(self, form: str) -> bytes:
        latest, before = self._loads.recent()
        if latest is not self._reported:
            self._reported, self._written = latest, {}
        if form not in self._written:
            self._written[form] = WRITERS[form](*_numbers(latest, before))
        return self._written[form]


def build_reports(parts: ServerParts) -> LoadReports | None:
    """Build the reports for responses, or return None if the settings disable them."""
    wanted = parts.settings.section(KubernetesSettings).load_reports
    return None if wanted == "off" else LoadReports(parts.of(Loads), wanted == "always")


def _numbers(now: ServerLoad, before: ServerLoad) -> tuple[Numbers, Numbers]:
    """Return the standard fields of a report, and its named metrics, including vLLM names that pickers read."""
    seconds = now.at - before.at
    per_second = 1 / seconds if seconds > 0 else 0.0
    load = now.total
    fields = {
        "cpu_utilization": max(now.cpu - before.cpu, 0.0) * per_second / CORES,
        "rps_fractional": max(now.calls - before.calls, 0) * per_second,
        "eps": max(now.failed - before.failed, 0) * per_second,
        "application_utilization": load.utilization,
    }
    named = {
        "inferstream.waiting": load.waiting,
        "inferstream.running": load.running,
        "num_requests_waiting": load.waiting,
        "kv_cache_usage_perc": round(load.kv_usage, 6),
    }
    return {name: round(value, 6) for name, value in fields.items()}, named


def serialize(fields: Numbers, named: Numbers) -> bytes:
    """Serialize a report as a protobuf message."""
    from .protos.orca_load_report_pb2 import (
        OrcaLoadReport,  # Imported lazily: only servers that report need it.
    )

    report = OrcaLoadReport(named_metrics=named)
    for name, value in fields.items():
        setattr(report, name, value)
    return report.SerializeToString()


def _binary(fields: Numbers, named: Numbers) -> bytes:
    return b"BIN " + b64encode(serialize(fields, named))


def _json(fields: Numbers, named: Numbers) -> bytes:
    return b"JSON " + orjson.dumps({**fields, "named_metrics": named})


def _text(fields: Numbers, named: Numbers) -> bytes:
    pairs = {**fields, **{f"named_metrics.{name}": value for name, value in named.items()}}
    return f"TEXT {','.join(f'{name}={value}' for name, value in pairs.items())}".encode()


WRITERS: dict[str, Callable[[Numbers, Numbers], bytes]] = {
    "bin": _binary,
    "json": _json,
    "text": _text,
    "message": serialize,
}
