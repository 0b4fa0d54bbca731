"""The paths of the metrics and of the load."""

import httpx
import pytest

from tests.asgi import Echo, asking


@pytest.mark.parametrize("endpoint", ["/metrics", "/own/metrics/"])
async def test_totals_follow_the_meters_and_have_their_own_path(endpoint: str) -> None:
    async with asking(Echo, metrics_endpoint=endpoint, metric_aliases=["vllm"]) as (client, _):
        scraped = await client.get(endpoint)
        totals = await client.get(endpoint.rstrip("/") + "/load")
    assert scraped.headers["content-type"] == totals.headers["content-type"]
    assert "inferstream_calls_in_progress" in scraped.text
    assert "inferstream_calls_in_progress" not in totals.text
    assert scraped.text.endswith(totals.text)
    assert "vllm:num_requests_running" in totals.text


async def test_load_report_remains_if_metrics_are_off() -> None:
    async with asking(Echo, metrics_endpoint=None) as (client, _):
        assert [*(await client.get("/v2/load")).json()["models"]] == ["Echo"]
        refused: list[httpx.Response] = [await client.get(path) for path in ("/metrics", "/metrics/load")]
        assert [each.status_code for each in refused] == [404, 404]
