"""The names of token metrics that a collector gets."""

import pytest

from inferstream.ext.telemetry import Meters
from inferstream.plugins.otel.push import MetricPush
from inferstream.telemetry.stages import TokenMeters

OLD = {"gen_ai.client.token.usage"}
NEW = {
    f"gen_ai.client.inference.{kind}_tokens"
    for kind in ("usage.input", "usage.output", "operation.input", "operation.output")
}


@pytest.mark.parametrize(
    ("opt_ins", "expected"),
    [
        ("", OLD),
        ("http,gen_ai", OLD),
        ("http, gen_ai_latest_experimental", NEW),
        ("gen_ai_latest_experimental/dup", OLD | NEW),
    ],
)
def test_environment_chooses_names_of_token_metrics(
    monkeypatch: pytest.MonkeyPatch, opt_ins: str, expected: set[str]
) -> None:
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", opt_ins)
    meters = Meters()
    tokens = meters.of("m", "2").of(TokenMeters)
    tokens.operation = "chat"
    tokens.count_tokens(3, 4)
    tokens.count_tokens(5, None)
    push = MetricPush(meters, "http://127.0.0.1:9", "server", "1", 60.0)
    scopes = [scope for resource in push._data().resource_metrics for scope in resource.scope_metrics]
    push._exporter.shutdown(timeout_millis=0)
    pushed = {metric.name: metric for scope in scopes for metric in scope.metrics}
    assert {name for name in pushed if name.startswith("gen_ai.client.")} == expected
    if expected & NEW:
        (spent,) = pushed["gen_ai.client.inference.usage.input_tokens"].data.data_points
        assert (spent.value, spent.attributes["gen_ai.token.modality"]) == (8, "unknown")
        (each,) = pushed["gen_ai.client.inference.operation.input_tokens"].data.data_points
        assert (each.count, each.sum) == (2, 8)
        assert not {"gen_ai.token.modality", "gen_ai.token.type"} & each.attributes.keys()
