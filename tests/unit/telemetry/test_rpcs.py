"""The numbers of one RPC."""

import pytest

from inferstream.telemetry.rpcs import RpcMeters


def test_rpc_end_is_counted_with_status_and_duration() -> None:
    meters = RpcMeters("UNARY", "s.Service", "Infer", (1.0,))
    meters.count_end("OK", 0.5)
    meters.count_end("OK", 2.0)
    meters.count_end("INTERNAL", 3.0)
    assert meters.series("handled") == {("OK",): 2, ("INTERNAL",): 1}
    assert meters.duration.buckets() == [("1.0", 1.0), ("+Inf", 3.0)]
    assert meters.duration.total == 5.5
    assert (meters.path, meters.labels) == ("/s.Service/Infer", ["UNARY", "s.Service", "Infer"])


@pytest.mark.parametrize(
    ("method", "unlogged"), [("Check", True), ("ModelReady", True), ("ModelInfer", False), ("Cancel", False)]
)
def test_probes_are_not_logged(method: str, unlogged: bool) -> None:
    assert RpcMeters("UNARY", "s", method).unlogged is unlogged
