"""Load reports in ORCA's formats, as Envoy and gRPC read them."""

import json
from base64 import b64decode
from typing import Any, cast

import pytest

from inferstream.dataplane.load import Load, Loads, ServerLoad
from inferstream.plugins.kubernetes.protos.orca_load_report_pb2 import OrcaLoadReport
from inferstream.server.orca import CORES, LoadReports

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


def test_the_sample_of_grpc_go_parses() -> None:
    report = OrcaLoadReport.FromString(b64decode(SAMPLE))
    expected = {"cpu_utilization": 0.5, "rps_fractional": 100.0, "eps": 2.0, "named_metrics": {"rif": 4.0}}
    assert fields_of(report) == expected


def test_the_binary_form_is_padded_base64_of_the_message() -> None:
    value = reports().header(b"bin")
    assert value is not None
    assert value.startswith(b"BIN ")
    assert len(value[4:]) % 4 == 0
    assert fields_of(OrcaLoadReport.FromString(b64decode(value[4:], validate=True))) == EXPECTED


def test_the_trailer_is_the_same_message() -> None:
    assert fields_of(OrcaLoadReport.FromString(reports().trailer())) == EXPECTED


def test_the_text_form_has_no_name_that_a_parser_refuses() -> None:
    value = reports().header(b" TEXT ")
    assert value is not None
    assert envoy_text(value) == EXPECTED


def test_the_golden_text_of_envoy_is_read_by_the_same_rules() -> None:
    golden = (
        b"TEXT cpu_utilization=0.7,mem_utilization=0.9,application_utilization=0.8,rps_fractional=1000,eps=2"
    )
    assert envoy_text(golden)["rps_fractional"] == 1000


def test_the_json_form_has_the_fields_of_the_message() -> None:
    value = reports().header(b"json")
    assert value is not None
    assert json.loads(value.removeprefix(b"JSON ")) == EXPECTED


@pytest.mark.parametrize("form", [None, b"", b"xml", b"message"])
def test_a_client_that_asks_for_no_known_form_gets_a_report_only_if_all_do(form: bytes | None) -> None:
    assert reports().header(form) is None
    assert (reports(always=True).header(form) or b"").startswith(b"BIN ")


def test_a_report_is_written_once_for_all_responses_of_its_time() -> None:
    written = reports()
    assert written.header(b"json") is written.header(b"json")


async def test_reports_of_a_stream_have_the_rates_since_the_one_before() -> None:
    successive = reports().successive()
    assert fields_of(OrcaLoadReport.FromString(await anext(successive))) == EXPECTED
    second = fields_of(OrcaLoadReport.FromString(await anext(successive)))
    assert (second["rps_fractional"], second.get("eps", 0.0)) == (40.0, 0.0)
    assert "rps_fractional" not in fields_of(OrcaLoadReport.FromString(await anext(successive)))
    await successive.aclose()
