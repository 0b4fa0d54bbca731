"""Load reports in ORCA's formats, as Envoy and gRPC read them."""

import json
from base64 import b64decode
from typing import Any, cast

import pytest

from inferstream.plugins.kubernetes.load import Load, Loads, ServerLoad
from inferstream.plugins.kubernetes.orca import CORES, LoadReports
from inferstream.plugins.kubernetes.protos.orca_load_report_pb2 import OrcaLoadReport

SAMPLE = "CQAAAAAAAOA/MQAAAAAAAFlAOQAAAAAAAABAQg4KA3JpZhEAAAAAAAAQQA=="
"""A report of grpc-go: cpu 0.5, 100 requests and 2 errors a second, a named metric of 4."""


class Loaded:
    """Loads of two moments, two seconds apart."""

    before = ServerLoad(Load(0, 0, 0.0, 0.0), [], 10, 1, 1.0, 5.0)
    latest = ServerLoad(Load(3, 2, 2.5, 0.5), [], 30, 2, 1.0 + CORES, 7.0)

    def recent(self) -> tuple[ServerLoad, ServerLoad]:
        return self.latest, self.before

    async def current(self, ends: bool) -> ServerLoad:
        assert ends
        return ServerLoad(Load(), [], 50, 2, 1.0 + CORES, 7.5)


def reports(always: bool = False) -> LoadReports:
    return LoadReports(cast(Loads, Loaded()), always)


EXPECTED: dict[str, Any] = {
    "cpu_utilization": 0.5,
    "rps_fractional": 10.0,
    "eps": 0.5,
    "application_utilization": 2.5,
    "named_metrics": {
        "inferstream.waiting": 3,
        "inferstream.running": 2,
        "num_requests_waiting": 3,
        "kv_cache_usage_perc": 0.5,
    },
}


def fields_of(report: OrcaLoadReport) -> dict[str, Any]:
    return {
        field.name: value if isinstance(value, float) else dict(value) for field, value in report.ListFields()
    }


def envoy_text(value: bytes) -> dict[str, Any]:
    """The report in a text header, by the rules of Envoy's parser: pairs, known names, no name twice."""
    form, _, pairs = value.decode().partition(" ")
    assert form == "TEXT"
    found: dict[str, Any] = {"named_metrics": {}}
    for pair in pairs.split(","):
        name, _, number = pair.strip().partition("=")
        within = found
        if name.startswith("named_metrics."):
            within, name = found["named_metrics"], name.removeprefix("named_metrics.")
        else:
            assert name in OrcaLoadReport.DESCRIPTOR.fields_by_name
        assert name not in within
        within[name] = float(number)
        assert 0 <= within[name] < float("inf")
    return found


def test_grpc_go_sample_parses() -> None:
    report = OrcaLoadReport.FromString(b64decode(SAMPLE))
    expected = {"cpu_utilization": 0.5, "rps_fractional": 100.0, "eps": 2.0, "named_metrics": {"rif": 4.0}}
    assert fields_of(report) == expected


def test_binary_format_is_padded_base64() -> None:
    value = reports().header(b"bin")
    assert value is not None
    assert value.startswith(b"BIN ")
    assert len(value[4:]) % 4 == 0
    assert fields_of(OrcaLoadReport.FromString(b64decode(value[4:], validate=True))) == EXPECTED


def test_trailer_is_equal_message() -> None:
    assert fields_of(OrcaLoadReport.FromString(reports().trailer())) == EXPECTED


def test_text_format_has_only_parsable_names() -> None:
    value = reports().header(b" TEXT ")
    assert value is not None
    assert envoy_text(value) == EXPECTED


def test_envoy_golden_text_parses() -> None:
    golden = (
        b"TEXT cpu_utilization=0.7,mem_utilization=0.9,application_utilization=0.8,rps_fractional=1000,eps=2"
    )
    assert envoy_text(golden)["rps_fractional"] == 1000


def test_json_format_has_message_fields() -> None:
    value = reports().header(b"json")
    assert value is not None
    assert json.loads(value.removeprefix(b"JSON ")) == EXPECTED


@pytest.mark.parametrize("form", [None, b"", b"xml", b"message"])
def test_unknown_format_gets_report_only_if_enabled_for_all(form: bytes | None) -> None:
    assert reports().header(form) is None
    assert (reports(always=True).header(form) or b"").startswith(b"BIN ")


def test_report_is_encoded_once_per_interval() -> None:
    written = reports()
    assert written.header(b"json") is written.header(b"json")


async def test_stream_reports_have_rates_since_previous_one() -> None:
    successive = reports().stream_reports()
    assert fields_of(OrcaLoadReport.FromString(await anext(successive))) == EXPECTED
    second = fields_of(OrcaLoadReport.FromString(await anext(successive)))
    assert (second["rps_fractional"], second.get("eps", 0.0)) == (40.0, 0.0)
    assert "rps_fractional" not in fields_of(OrcaLoadReport.FromString(await anext(successive)))
    await successive.aclose()
